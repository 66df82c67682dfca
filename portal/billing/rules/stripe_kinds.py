"""What a line of Stripe's books can be where none of our own purchases, payouts, refunds or disputes made it."""

from enum import StrEnum


class Booking(StrEnum):
    """The kinds of ledger transactions that book such a line."""

    OWNER_WITHDRAWAL = "owner_withdrawal"
    OWNER_DEPOSIT = "owner_deposit"
    STRIPE_FEE = "stripe_fee"
    STRIPE_FEE_RETURNED = "stripe_fee_returned"
    STRIPE_ADJUSTMENT = "stripe_adjustment"


OPENING = "opening_balance"

WORDS = {
    Booking.OWNER_WITHDRAWAL: "The owner took it out (a payout to your own bank)",
    Booking.OWNER_DEPOSIT: "The owner put it in (a top-up of the balance, or money from before the pool)",
    Booking.STRIPE_FEE: "A fee of Stripe",
    Booking.STRIPE_FEE_RETURNED: "A fee that Stripe gave back",
    Booking.STRIPE_ADJUSTMENT: "Another correction by Stripe",
}

# Types whose meaning leaves no choice; what Stripe takes may come back under the same type.
_OWNER = frozenset({"payout", "payout_cancel", "payout_failure", "topup", "topup_reversal", OPENING})
_FEES = frozenset({"stripe_fee", "stripe_fx_fee", "tax_fee", "network_cost"})


def certain(*, type_: str, net_minor: int) -> Booking | None:
    """Return the one thing that a line of this type can be, or None where a person has to say it."""
    if type_ in _OWNER:
        return Booking.OWNER_DEPOSIT if net_minor > 0 else Booking.OWNER_WITHDRAWAL
    if type_ in _FEES:
        return Booking.STRIPE_FEE_RETURNED if net_minor > 0 else Booking.STRIPE_FEE
    return None


def choices(*, net_minor: int) -> list[Booking]:
    """Return what a line that brought (or took) money can be."""
    if net_minor > 0:
        return [Booking.OWNER_DEPOSIT, Booking.STRIPE_FEE_RETURNED, Booking.STRIPE_ADJUSTMENT]
    return [Booking.OWNER_WITHDRAWAL, Booking.STRIPE_FEE, Booking.STRIPE_ADJUSTMENT]
