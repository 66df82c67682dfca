"""Ledger transactions as their parties read them, and the trial balance that the transfers themselves give."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from portal.billing.models import LedgerAccount
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import Kind

_SPENDABLE = (
    Kind.CUSTOMER_CREDIT,
    Kind.PROMO_CREDIT,
    Kind.CUSTOMER_RECEIVABLE,
    Kind.POSTPAID_LIMIT,
    Kind.POSTPAID_LINE,
)


@dataclass(frozen=True, slots=True)
class Movement:
    """One transaction's effect on a party's accounts; positive is in the party's favour."""

    tx_id: str
    at: datetime
    kind: str
    source_type: str
    source_id: str
    note: str
    amount_nano: int


@dataclass(frozen=True, slots=True)
class TrialBalance:
    """Every account of one currency; `difference_nano` is 0 in every sound ledger."""

    currency: str
    debit_nano: int
    credit_nano: int

    @property
    def difference_nano(self) -> int:
        """Debit balances less credit balances."""
        return self.debit_nano - self.credit_nano


_MOVEMENTS = """
    SELECT tx.id, tx.effective_at, tx.kind, tx.source_type, tx.source_id, tx.note, sum(moves.amount)
    FROM (
        SELECT tx_id, amount FROM billing_ledgertransfer WHERE credit_account_id = ANY(%(accounts)s)
        UNION ALL
        SELECT tx_id, -amount FROM billing_ledgertransfer WHERE debit_account_id = ANY(%(accounts)s)
    ) moves
    JOIN billing_ledgertx tx ON tx.id = moves.tx_id
    WHERE NOT tx.kind = ANY(%(without)s)
    GROUP BY tx.id HAVING sum(moves.amount) <> 0
    ORDER BY tx.effective_at DESC, tx.id DESC LIMIT %(limit)s OFFSET %(offset)s
"""
_SUMS = """
    SELECT account_id, sum(debits)::bigint, sum(credits)::bigint FROM (
        SELECT debit_account_id AS account_id, amount AS debits, 0 AS credits FROM billing_ledgertransfer
        UNION ALL
        SELECT credit_account_id, 0, amount FROM billing_ledgertransfer
    ) sides GROUP BY account_id
"""


def customer_movements(
    *, organization: str, with_usage: bool = False, limit: int = 50, offset: int = 0
) -> list[Movement]:
    """Return what moved a customer's credit and debt, newest first; usage, which is many, only if asked for."""
    return _movements(organization, _SPENDABLE, () if with_usage else ("usage",), limit, offset)


def provider_movements(*, provider: str, limit: int = 50, offset: int = 0) -> list[Movement]:
    """Return payouts, reversals and other events that moved what a provider is owed; usage is left out."""
    return _movements(provider, chart.PROVIDER_KINDS, ("usage",), limit, offset)


def trial_balance() -> list[TrialBalance]:
    """Return the trial balance of each currency, summed from the transfers themselves."""
    with connection.cursor() as cursor:
        cursor.execute(_SUMS)
        sums = {row[0]: (int(row[1]), int(row[2])) for row in cursor.fetchall()}
    totals: dict[str, list[int]] = {}
    for row in LedgerAccount.objects.order_by("currency"):
        debits, credits_ = sums.get(row.pk, (0, 0))
        side = totals.setdefault(row.currency, [0, 0])
        side[0 if row.is_debit_normal else 1] += debits - credits_ if row.is_debit_normal else credits_ - debits
    return [TrialBalance(currency, debit, credit) for currency, (debit, credit) in totals.items()]


def _movements(
    owner: str, wanted: tuple[Kind, ...], without: tuple[str, ...], limit: int, offset: int
) -> list[Movement]:
    ids = list(LedgerAccount.objects.filter(owner=owner, kind__in=wanted).values_list("pk", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(_MOVEMENTS, {"accounts": ids, "without": list(without), "limit": limit, "offset": offset})
        rows = cursor.fetchall()
    return [
        Movement(str(tx), at, kind, source_type, source_id, note, int(amount))
        for tx, at, kind, source_type, source_id, note, amount in rows
    ]
