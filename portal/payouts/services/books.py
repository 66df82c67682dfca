"""Compares the ledger's Stripe balance with Stripe's own books, and names what Stripe moved that nobody booked."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from portal.billing.rules.accounts import Kind
from portal.billing.services import ledger
from portal.core import money
from portal.integrations import stripe
from portal.integrations.stripe_types import Movement
from portal.payouts.models import Payout

LOOK_BACK = timedelta(days=30)
_BOOKED = frozenset({"charge", "payment", "transfer", "transfer_refund"})


@dataclass(frozen=True, slots=True)
class Books:
    """Both balances in minor units, and Stripe's movements that have no counterpart here."""

    ours_minor: int
    theirs_minor: int
    unbooked: tuple[Movement, ...]

    @property
    def difference_minor(self) -> int:
        """What Stripe has beyond our books; purchases that are just being paid show up here for a moment."""
        return self.theirs_minor - self.ours_minor


def compare(*, now: datetime) -> Books:
    """Ask Stripe and compare. Raises what Payments raises."""
    door = stripe.payments()
    currency = settings.CURRENCY
    theirs = sum(one.available_minor + one.pending_minor for one in door.balances() if one.currency == currency)
    ours = ledger.balance(ledger.account(Kind.STRIPE_BALANCE, currency=currency)) // money.nano_per_minor(currency)
    moved = [one for one in door.movements(since=now - LOOK_BACK) if one.currency == currency]
    known = _known([one.source for one in moved if one.type == "transfer"])
    unbooked = tuple(one for one in moved if not _is_booked(one, known))
    return Books(ours_minor=ours, theirs_minor=theirs, unbooked=unbooked)


def _known(transfers: list[str]) -> set[str]:
    rows = Payout.objects.filter(stripe_transfer__in=transfers).values_list("stripe_transfer", flat=True)
    return {name for name in rows if name}


def _is_booked(movement: Movement, known: set[str]) -> bool:
    return movement.source in known if movement.type == "transfer" else movement.type in _BOOKED
