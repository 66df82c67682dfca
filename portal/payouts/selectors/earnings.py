"""From a payout down to what it pays: what moved the available balance since the one before, by kind and earning."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from django.db import connection

from portal.billing.models import EarningMaturity, LedgerAccount, UsagePosting
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import Kind
from portal.core import money
from portal.metering.models import UsageRecord
from portal.payouts.models import Payout, PayoutState

# Sums of one account are read from both sides by their indexes. What the payout itself moved is told as what was sent
# and as its fee; its VAT is a part, because it is sent too.
_SIDES = """
    SELECT tx.created_at, tx.kind, tx.source_id, part.amount FROM billing_ledgertransfer part
    JOIN billing_ledgertx tx ON tx.id = part.tx_id WHERE part.credit_account_id = %(account)s
    UNION ALL
    SELECT tx.created_at, tx.kind, tx.source_id, -part.amount FROM billing_ledgertransfer part
    JOIN billing_ledgertx tx ON tx.id = part.tx_id WHERE part.debit_account_id = %(account)s
"""
_BY_KIND = f"""
    SELECT kind, count(*), sum(amount)::bigint FROM ({_SIDES}) moves
    WHERE created_at > %(after)s AND created_at <= %(until)s AND (source_id <> %(payout)s OR kind = 'payout_vat')
    GROUP BY kind ORDER BY kind
"""  # noqa: S608  constant
_BEFORE = f"SELECT coalesce(sum(amount), 0)::bigint FROM ({_SIDES}) moves WHERE created_at <= %(after)s"  # noqa: S608  constant


@dataclass(frozen=True, slots=True)
class Part:
    """What one kind of event brought to (or took from) the balance that was paid."""

    kind: str
    count: int
    amount_nano: int


@dataclass(frozen=True, slots=True)
class Composition:
    """How a payout's amount comes about: what was carried over, the parts, what was sent, and Stripe's fee."""

    carried_nano: int
    parts: tuple[Part, ...]
    sent_nano: int
    fee_nano: int

    @property
    def left_nano(self) -> int:
        """What stayed payable: less than the smallest unit that could be sent, or what is owed elsewhere."""
        return self.carried_nano + sum(part.amount_nano for part in self.parts) - self.sent_nano - self.fee_nano


def composition(*, payout: Payout) -> Composition:
    """Return what the payout is made of, from the ledger's own rows."""
    sent = money.nano_from_minor(payout.amount_minor, payout.currency)
    fee = money.nano_from_minor(payout.fee_minor, payout.currency)
    code = chart.code(Kind.PROVIDER_AVAILABLE, payout.provider.public_id)
    account = LedgerAccount.objects.filter(code=code).values_list("pk", flat=True).first()
    if account is None:
        return Composition(0, (), int(sent), int(fee))
    given: dict[str, int | datetime | str] = {
        "account": account,
        "after": _after(payout),
        "until": payout.created_at,
        "payout": payout.public_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_BEFORE, given)
        carried = int(cursor.fetchone()[0])
        cursor.execute(_BY_KIND, given)
        parts = tuple(Part(kind, int(count), int(amount)) for kind, count, amount in cursor.fetchall() if amount)
    return Composition(carried, parts, int(sent), int(fee))


def matured(*, payout: Payout, limit: int = 400) -> list[EarningMaturity]:
    """Return the earnings that became available for this payout, the latest delivered first."""
    rows = EarningMaturity.objects.filter(
        provider=payout.provider.public_id,
        matured_tx__created_at__gt=_after(payout),
        matured_tx__created_at__lte=payout.created_at,
        matured_tx__kind="maturity",
    )
    return list(rows.select_related("tx").order_by("-tx__effective_at", "-pk")[:limit])


def records_of(*, provider: str, tx: UUID, limit: int = 500) -> list[UsagePosting]:
    """Return the requests that one earning of the provider is made of; none where it is another's."""
    if not EarningMaturity.objects.filter(provider=provider, tx=tx).exists():
        return []
    return list(UsagePosting.objects.filter(tx=tx, provider_nano__gt=0).order_by("opened_on", "request_id")[:limit])


def sum_of(rows: Iterable[EarningMaturity]) -> int:
    """Return what the earnings come to after claw-backs."""
    return sum(row.left_nano for row in rows)


def _after(payout: Payout) -> datetime:
    """Return when the payout before was drafted that was not given up, or the start of the provider's time."""
    before = (
        Payout.objects.filter(provider=payout.provider_id, created_at__lt=payout.created_at)
        .exclude(state__in=[PayoutState.REJECTED, PayoutState.CANCELED])
        .order_by("-created_at", "-pk")
        .values_list("created_at", flat=True)
        .first()
    )
    return before or payout.period_start


def usage_of(rows: Iterable[UsagePosting]) -> dict[tuple[date, UUID, int], UsageRecord]:
    """Return the usage records of postings by day, request and attempt; those that were dropped are left out."""
    keys = {(row.opened_on, row.request_id, row.attempt) for row in rows}
    found = UsageRecord.objects.filter(
        opened_on__in={key[0] for key in keys}, request_id__in={key[1] for key in keys}
    ).defer("routing")
    return {
        (row.opened_on, row.request_id, row.attempt): row
        for row in found
        if (row.opened_on, row.request_id, row.attempt) in keys
    }
