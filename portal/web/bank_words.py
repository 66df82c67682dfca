"""How a payout's way from Stripe to the bank is told: received, not only sent."""

from portal.payouts.models import Payout

_WORDS = {
    "pending": "Stripe prepares the payment to the bank, expected {day}.",
    "in_transit": "On its way to the bank, expected {day}.",
    "paid": "Received by the bank {day}.",
    "failed": "The bank refused it ({failure}): update the bank account at Stripe, which then tries again.",
    "canceled": "The payment to the bank was canceled at Stripe; it is made again by Stripe's schedule.",
}


def bank_words(payout: Payout) -> str:
    """Return one sentence about the way to the bank; empty where nothing is known of it."""
    if payout.state in {"transferred", "reversed"} and payout.stripe_transfer and not payout.bank_state:
        return "Stripe pays it to the bank by the account's own schedule." if payout.state == "transferred" else ""
    words = _WORDS.get(payout.bank_state, "")
    day = f"{payout.bank_arrives_at:%Y-%m-%d}" if payout.bank_arrives_at else "soon"
    return words.format(day=day, failure=payout.bank_failure or "no reason given")
