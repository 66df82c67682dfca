"""What must be equal between payouts and the ledger, for `ledger_check`."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Sum

from portal.billing.models import LedgerAccount, LedgerTransfer
from portal.billing.rules.accounts import Kind
from portal.billing.rules.differences import Difference
from portal.billing.selectors import balances
from portal.core import money
from portal.payouts.models import OPEN_STATES, Payout, PayoutState, Rail
from portal.payouts.selectors import tax_checks

CLEARING_ALARM = timedelta(hours=48)
_IN_DOUBT = [PayoutState.SENDING, PayoutState.UNKNOWN]
_GIVEN_UP = [PayoutState.REJECTED, PayoutState.CANCELED]
_SENT = [PayoutState.TRANSFERRED, PayoutState.REVERSED]


def differences(*, now: datetime) -> list[Difference]:
    """Return every difference: clearing = open payouts, sent postings = payouts sent, no payout open for too long."""
    return [*_clearing(), *_sent(), *_reversed(), *_fees(), *tax_checks.differences(), *_stale(now)]


def _clearing() -> Iterator[Difference]:
    """Each provider's clearing account holds exactly its open payouts."""
    expected: dict[str, int] = defaultdict(int)
    for payout in Payout.objects.select_related("provider").filter(state__in=OPEN_STATES).exclude(state="draft"):
        expected[payout.provider.public_id] += money.nano_from_minor(payout.amount_minor, payout.currency)
    actual = {row.owner: balances.balance_of(row) for row in LedgerAccount.objects.filter(kind=Kind.PAYOUT_CLEARING)}
    yield from _compare("payout_clearing", expected, actual)


def _sent() -> Iterator[Difference]:
    """Each payout that was sent is booked once, and nothing else is booked as sent."""
    for rail, kind in ((Rail.STRIPE, "payout_sent"), (Rail.MANUAL, "payout_paid_by_bank")):
        rows = Payout.objects.filter(state__in=_SENT, rail=rail).order_by("pk").iterator()
        expected = {row.public_id: int(money.nano_from_minor(row.amount_minor, row.currency)) for row in rows}
        yield from _compare(kind, expected, _posted(kind))


def _reversed() -> Iterator[Difference]:
    """Each reversal of a transfer is booked in full."""
    kinds = {Rail.STRIPE: ("payout_reversed", "transfer_reversed"), Rail.MANUAL: ("bank_payout_returned",) * 2}
    for rail, (code, kind) in kinds.items():
        rows = Payout.objects.filter(reversed_minor__gt=0, rail=rail).order_by("pk").iterator()
        expected = {row.public_id: int(money.nano_from_minor(row.reversed_minor, row.currency)) for row in rows}
        yield from _compare(code, expected, _posted(kind))


def _fees() -> Iterator[Difference]:
    """What providers bear of fees is booked once, and returned where the payout was not made."""
    rows = Payout.objects.filter(fee_minor__gt=0).order_by("pk").iterator()
    booked = {row.public_id: (int(money.nano_from_minor(row.fee_minor, row.currency)), row.state) for row in rows}
    yield from _compare("payout_fee", {name: fee for name, (fee, _) in booked.items()}, _posted("payout_fee"))
    returned = {name: fee for name, (fee, state) in booked.items() if state in _GIVEN_UP}
    yield from _compare("payout_fee_returned", returned, _posted("payout_fee_returned"))


def _posted(kind: str) -> dict[str, int]:
    rows = LedgerTransfer.objects.filter(tx__kind=kind).values("tx__source_id").annotate(sum=Sum("amount"))
    return {str(row["tx__source_id"]): int(row["sum"]) for row in rows.order_by("tx__source_id")}


def _stale(now: datetime) -> Iterator[Difference]:
    """No outcome stays unknown for days."""
    rows = Payout.objects.filter(state__in=_IN_DOUBT, changed_at__lt=now - CLEARING_ALARM).order_by("pk")
    for row in rows:
        yield Difference(code="payout_in_doubt", subject=row.public_id, expected="known within 48 h", actual=row.state)


def _compare(code: str, expected: dict[str, int], actual: dict[str, int]) -> Iterator[Difference]:
    for subject in sorted({*expected, *actual}):
        ours, theirs = expected.get(subject, 0), actual.get(subject, 0)
        if ours != theirs:
            yield Difference(code=code, subject=subject, expected=str(ours), actual=str(theirs))
