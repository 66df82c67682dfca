"""Tax that was collected from customers and VAT that was paid to providers, by month, and what is still open."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from portal.billing.rules.accounts import Kind

_MONTHS = """
    SELECT to_char(moved.effective_at AT TIME ZONE 'UTC', 'YYYY-MM') AS month,
        coalesce(sum(moved.amount) FILTER (WHERE moved.kind = 'tax_payable' AND moved.is_credit), 0),
        coalesce(sum(moved.amount) FILTER (WHERE moved.kind = 'tax_payable' AND NOT moved.is_credit), 0),
        coalesce(sum(moved.amount) FILTER (WHERE moved.kind = 'input_vat' AND NOT moved.is_credit), 0),
        coalesce(sum(moved.amount) FILTER (WHERE moved.kind = 'input_vat' AND moved.is_credit), 0)
    FROM (
        SELECT account.kind, true AS is_credit, part.amount, part.effective_at
        FROM billing_ledgeraccount account
        JOIN billing_ledgertransfer part ON part.credit_account_id = account.id WHERE account.kind = ANY(%(kinds)s)
        UNION ALL
        SELECT account.kind, false, part.amount, part.effective_at
        FROM billing_ledgeraccount account
        JOIN billing_ledgertransfer part ON part.debit_account_id = account.id WHERE account.kind = ANY(%(kinds)s)
    ) moved
    GROUP BY 1 ORDER BY 1 DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class TaxMonth:
    """One UTC month in nano units: collected and given back or paid on, VAT paid to providers and settled."""

    month: str
    collected_nano: int
    discharged_nano: int
    input_nano: int
    settled_nano: int


def months(*, limit: int = 60) -> list[TaxMonth]:
    """Return months in which tax moved, newest first."""
    kinds = [str(Kind.TAX_PAYABLE), str(Kind.INPUT_VAT)]
    with connection.cursor() as cursor:
        cursor.execute(_MONTHS, {"kinds": kinds, "limit": limit})
        return [TaxMonth(row[0], *(int(value) for value in row[1:])) for row in cursor.fetchall()]


_YEARS = """
    WITH moved AS (
        SELECT part.tx_id, account.owner, counter.kind AS counter, part.amount
        FROM billing_ledgertransfer part
        JOIN billing_ledgeraccount account ON account.id = part.credit_account_id
        JOIN billing_ledgeraccount counter ON counter.id = part.debit_account_id
        WHERE part.effective_at >= %(first)s AND part.effective_at < %(until)s
            AND account.kind = ANY(%(kinds)s) AND NOT counter.kind = ANY(%(kinds)s)
        UNION ALL
        SELECT part.tx_id, account.owner, counter.kind, -part.amount
        FROM billing_ledgertransfer part
        JOIN billing_ledgeraccount account ON account.id = part.debit_account_id
        JOIN billing_ledgeraccount counter ON counter.id = part.credit_account_id
        WHERE part.effective_at >= %(first)s AND part.effective_at < %(until)s
            AND account.kind = ANY(%(kinds)s) AND NOT counter.kind = ANY(%(kinds)s)
    )
    SELECT moved.owner, moved.counter, tx.kind = 'usage', sum(moved.amount)
    FROM moved JOIN billing_ledgertx tx ON tx.id = moved.tx_id GROUP BY 1, 2, 3
"""
_GROSS = """
    SELECT batch.owner, sum(part.amount)
    FROM (
        SELECT DISTINCT part.tx_id, account.owner
        FROM billing_ledgertransfer part
        JOIN billing_ledgertx tx ON tx.id = part.tx_id AND tx.kind = 'usage'
        JOIN billing_ledgeraccount account ON account.id = part.credit_account_id
        WHERE part.effective_at >= %(first)s AND part.effective_at < %(until)s AND account.kind = ANY(%(kinds)s)
    ) batch
    JOIN billing_ledgertransfer part ON part.tx_id = batch.tx_id GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Moved:
    """What moved a provider's accounts within a time, by the kind of account on the other side."""

    provider: str
    counter: Kind
    is_usage: bool
    nano: int


def moved_by_provider(*, kinds: tuple[Kind, ...], first: datetime, until: datetime) -> list[Moved]:
    """Return what came to (or left) each provider from outside its own accounts."""
    with connection.cursor() as cursor:
        cursor.execute(_YEARS, {"kinds": [str(kind) for kind in kinds], "first": first, "until": until})
        return [Moved(owner, Kind(counter), usage, int(nano)) for owner, counter, usage, nano in cursor.fetchall()]


def charged_by_provider(*, kinds: tuple[Kind, ...], first: datetime, until: datetime) -> dict[str, int]:
    """Return what customers were charged for each provider's work that earned it anything."""
    with connection.cursor() as cursor:
        cursor.execute(_GROSS, {"kinds": [str(kind) for kind in kinds], "first": first, "until": until})
        return {owner: int(nano) for owner, nano in cursor.fetchall()}
