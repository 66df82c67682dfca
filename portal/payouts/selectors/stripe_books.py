"""Where the ledger and Stripe's own books part, for `ledger_check` and the operator's page."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet, Sum

from portal.billing.models import LedgerAccount, StripeMovement
from portal.billing.rules.accounts import Kind
from portal.billing.rules.differences import Difference
from portal.billing.selectors import balances
from portal.core import money

# What is being paid right now is at Stripe before it is booked here, or the other way round.
SETTLES_WITHIN = timedelta(hours=1)

# A reversal belongs to what it takes back.
_SOURCES = """
    SELECT coalesce(theirs.source_type, ours.source_type), coalesce(theirs.source_id, ours.source_id),
        coalesce(theirs.net, 0) * %(nano)s, coalesce(ours.net, 0),
        coalesce(greatest(theirs.seen_at, ours.booked_at), theirs.seen_at, ours.booked_at)
    FROM (
        SELECT source_type, source_id, sum(net_minor) AS net, max(seen_at) AS seen_at
        FROM billing_stripemovement WHERE source_id <> '' GROUP BY 1, 2
    ) theirs
    FULL JOIN (
        SELECT coalesce(undone.source_type, tx.source_type) AS source_type,
            coalesce(undone.source_id, tx.source_id) AS source_id, sum(part.net) AS net,
            max(tx.created_at) AS booked_at
        FROM (
            SELECT tx_id, amount AS net FROM billing_ledgertransfer WHERE debit_account_id = %(bank)s
            UNION ALL
            SELECT tx_id, -amount FROM billing_ledgertransfer WHERE credit_account_id = %(bank)s
        ) part
        JOIN billing_ledgertx tx ON tx.id = part.tx_id
        LEFT JOIN billing_ledgertx undone ON undone.id = tx.reverses_id
        GROUP BY 1, 2
    ) ours USING (source_type, source_id)
    WHERE coalesce(theirs.net, 0) * %(nano)s <> coalesce(ours.net, 0)
    ORDER BY 5, 1, 2 LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """One source that Stripe and the ledger book differently, in nano units."""

    source_type: str
    source_id: str
    theirs_nano: int
    ours_nano: int
    at: datetime

    @property
    def name(self) -> str:
        """How `ledger_check` calls it."""
        return f"{self.source_type} {self.source_id}"


def unmatched(*, limit: int = 200) -> QuerySet[StripeMovement]:
    """Return lines of Stripe's books that nothing here explains, oldest first."""
    return StripeMovement.objects.filter(source_id="").order_by("moved_at", "id")[:limit]


def booked(*, limit: int = 50) -> QuerySet[StripeMovement]:
    """Return lines that were booked by themselves, newest first."""
    rows = StripeMovement.objects.filter(tx__isnull=False).select_related("tx")
    return rows.order_by("-moved_at", "-id")[:limit]


def gaps(*, limit: int | None = None) -> list[Gap]:
    """Return every source (or the first ones) whose sum at Stripe is not its sum in the ledger, oldest first."""
    bank = LedgerAccount.objects.filter(kind=Kind.STRIPE_BALANCE).first()
    given = {"bank": bank.pk if bank else 0, "nano": money.nano_per_minor(settings.CURRENCY), "limit": limit}
    with connection.cursor() as cursor:
        cursor.execute(_SOURCES, given)
        return [Gap(kind, name, int(theirs), int(ours), at) for kind, name, theirs, ours, at in cursor.fetchall()]


def ours_nano() -> int:
    """Return what the ledger says lies at Stripe."""
    bank = LedgerAccount.objects.filter(kind=Kind.STRIPE_BALANCE).first()
    return balances.balance(account_id=bank.pk) if bank else 0


def differences(*, balance_minor: int, now: datetime) -> Iterator[Difference]:
    """Yield what differs for longer than it takes to settle; `balance_minor` is what Stripe says lies there."""
    before = now - SETTLES_WITHIN
    open_ = list(StripeMovement.objects.filter(source_id=""))
    found = gaps()
    for row in open_:
        if row.seen_at < before:
            yield Difference("stripe_unmatched", f"{row.type} {row.stripe_id}", "a posting", f"{row.net_minor} minor")
    for gap in found:
        if gap.at < before:
            yield Difference("stripe_differs", gap.name, str(gap.theirs_nano), str(gap.ours_nano))
    yield from _balance(balance_minor, open_, found, before)


def _balance(
    balance_minor: int, open_: list[StripeMovement], found: list[Gap], before: datetime
) -> Iterator[Difference]:
    """Stripe's balance is the sum of its lines, and the ledger's but for what is just being settled."""
    nano = money.nano_per_minor(settings.CURRENCY)
    lines = int(StripeMovement.objects.order_by().aggregate(sum=Sum("net_minor", default=0))["sum"])
    if lines != balance_minor:
        yield Difference("stripe_lines_incomplete", "balance transactions", f"{balance_minor} minor", f"{lines} minor")
    settling = sum(row.net_minor * nano for row in open_ if row.seen_at >= before)
    settling += sum(gap.theirs_nano - gap.ours_nano for gap in found if gap.at >= before)
    expected = ours_nano() + settling
    if expected != balance_minor * nano:
        yield Difference("stripe_balance", "stripe_balance", str(expected), str(balance_minor * nano))
