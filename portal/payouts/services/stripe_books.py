"""Keeps Stripe's own books here, line by line, and says what each line belongs to.

What nothing here explains is booked where its type leaves no choice, else it waits for an operator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import Dispute, LedgerTx, Refund, StripeMovement, TopUp
from portal.billing.rules import stripe_kinds
from portal.billing.services import stripe_bookings
from portal.core import db
from portal.integrations import stripe
from portal.integrations.stripe_types import Movement
from portal.payouts.models import Payout

_OVERLAP = timedelta(days=3)
_BEFORE_THE_POOL = timedelta(days=30)
_TRIES = 3
_OPENING_ID = "opening"

# Which of our sources makes lines of which type.
_MAKERS = {
    "charge": "topup",
    "payment": "topup",
    "transfer": "payout",
    "transfer_cancel": "payout",
    "transfer_failure": "payout",
    "transfer_refund": "payout",
    "refund": "refund",
    "payment_refund": "refund",
    "refund_failure": "refund",
    "payment_failure_refund": "refund",
    "adjustment": "dispute",
}


@dataclass(frozen=True, slots=True)
class Synced:
    """What one look at Stripe's books brought; `balance_minor` is what lies at Stripe, available and pending."""

    new: int
    matched: int
    booked: int
    balance_minor: int


def sync(*, now: datetime) -> Synced:
    """Take over new lines, match them and book those that are certain. Raises what Payments raises."""
    with db.advisory_lock("poolhouse.payouts.stripe_books"):
        new, balance = _take_over(now)
        matched = match()
        booked = _book_certain(now)
    return Synced(new, matched, booked, balance)


def _take_over(now: datetime) -> tuple[int, int]:
    """Read lines until Stripe's balance stood still while we read, so that balance and lines are of one moment."""
    is_first = not StripeMovement.objects.exists()
    new, balance = 0, _balance()
    for _ in range(_TRIES):
        new += _store(stripe.payments().movements(since=_since(now)), now)
        after = _balance()
        if after == balance:
            break
        balance = after
    if is_first:
        new += _open(balance, now)
    return new, balance


def _since(now: datetime) -> datetime:
    last = StripeMovement.objects.exclude(stripe_id=_OPENING_ID).order_by("-moved_at").first()
    if last is not None:
        return last.moved_at - _OVERLAP
    first = LedgerTx.objects.order_by("created_at").values_list("created_at", flat=True).first()
    return min(first or now, now) - _BEFORE_THE_POOL


def _store(lines: Iterable[Movement], now: datetime) -> int:
    ours = [line for line in lines if line.currency == settings.CURRENCY]
    known = set(
        StripeMovement.objects.filter(stripe_id__in=[line.id for line in ours]).values_list("stripe_id", flat=True)
    )
    fresh = [_row(line, now) for line in ours if line.id not in known]
    StripeMovement.objects.bulk_create(fresh, batch_size=2000)
    return len(fresh)


def _row(line: Movement, now: datetime) -> StripeMovement:
    return StripeMovement(
        stripe_id=line.id,
        type=line.type,
        amount_minor=line.amount_minor,
        fee_minor=line.fee_minor,
        net_minor=line.net_minor,
        currency=line.currency,
        source=line.source,
        related=list(line.related),
        moved_at=line.created_at,
        seen_at=now,
    )


def _open(balance: int, now: datetime) -> int:
    """Keep what lay at Stripe before the first line that was read as a line of its own."""
    read = StripeMovement.objects.order_by().aggregate(sum=Sum("net_minor", default=0))["sum"]
    before = balance - int(read)
    if not before:
        return 0
    first = StripeMovement.objects.order_by("moved_at").values_list("moved_at", flat=True).first()
    StripeMovement.objects.create(
        stripe_id=_OPENING_ID,
        type=stripe_kinds.OPENING,
        amount_minor=before,
        fee_minor=0,
        net_minor=before,
        currency=settings.CURRENCY,
        moved_at=min(first or now, now),
        seen_at=now,
    )
    return 1


def _balance() -> int:
    found = stripe.payments().balances()
    return sum(one.available_minor + one.pending_minor for one in found if one.currency == settings.CURRENCY)


def match(*, limit: int = 5000) -> int:
    """Say for unmatched lines which purchase, payout, refund or dispute made them; return how many were found."""
    rows = list(StripeMovement.objects.filter(source_id="", type__in=_MAKERS).order_by("moved_at", "id")[:limit])
    owners = _owners({name for row in rows for name in _names(row)})
    found = []
    for row in rows:
        maker = _MAKERS[row.type]
        source_id = next((owners[maker, name] for name in _names(row) if (maker, name) in owners), "")
        if source_id:
            row.source_type, row.source_id = maker, source_id
            found.append(row)
    StripeMovement.objects.bulk_update(found, ["source_type", "source_id"], batch_size=2000)
    return len(found)


def _names(row: StripeMovement) -> list[str]:
    """Return Stripe's ids of what made the line: its own source first, then what that names."""
    return [name for name in (row.source, *row.related) if name]


def _owners(names: set[str]) -> Mapping[tuple[str, str], str]:
    """Return our source's id by what it is and by Stripe's id of it."""
    found: dict[tuple[str, str], str] = {}
    for topup in TopUp.objects.filter(charge__in=names) | TopUp.objects.filter(payment_intent__in=names):
        found |= {("topup", name): topup.public_id for name in (topup.charge, topup.payment_intent) if name}
    for payout in Payout.objects.filter(stripe_transfer__in=names):
        found["payout", payout.stripe_transfer or ""] = payout.public_id
    for refund in Refund.objects.filter(stripe_refund__in=names):
        found["refund", refund.stripe_refund or ""] = refund.public_id
    for dispute in Dispute.objects.filter(stripe_dispute__in=names):
        found["dispute", dispute.stripe_dispute] = dispute.stripe_dispute
    return found


def _book_certain(now: datetime) -> int:
    booked = 0
    for row in StripeMovement.objects.filter(source_id="").order_by("moved_at", "id"):
        booking = stripe_kinds.certain(type_=row.type, net_minor=row.net_minor)
        if booking is None or not row.net_minor:
            continue
        with transaction.atomic():
            stripe_bookings.book(movement_id=row.pk, booking=booking, note="", actor=SYSTEM_ACTOR, now=now)
        booked += 1
    return booked
