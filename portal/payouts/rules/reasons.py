"""Why a provider is not paid in a run: a stable code, the words, and what to do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason; `detail` holds the figures or Stripe's own code."""

    code: str
    text: str
    detail: str = ""


HOUSE = "house"
NOT_APPROVED = "provider_not_approved"
NO_ACCOUNT = "no_account"
ACCOUNT = "account_not_payable"
BELOW_MINIMUM = "below_minimum"
OPEN_PAYOUT = "open_payout"
NEGATIVE = "negative_at_stripe"
STRIPE = "stripe_unavailable"
OTHER_CURRENCY = "other_currency"

_TEXTS = {
    HOUSE: "The operator's own nodes are not paid.",
    NOT_APPROVED: "The provider is not approved, or is suspended.",
    NO_ACCOUNT: "The provider has not connected a Stripe account.",
    ACCOUNT: "The Stripe account cannot receive transfers now.",
    BELOW_MINIMUM: "The available balance is below the smallest payout.",
    OPEN_PAYOUT: "An earlier payout is still open.",
    NEGATIVE: "The account's balance at Stripe is negative: Stripe would keep the transfer.",
    STRIPE: "Stripe could not be asked; the next run tries again.",
    OTHER_CURRENCY: "The earnings are in another currency than the pool pays in.",
}


def reason(code: str, detail: str = "") -> Reason:
    """Return the reason with its words."""
    return Reason(code=code, text=_TEXTS[code], detail=detail)
