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
CHANGED = "destination_changed"
BANK_UNCHECKED = "bank_details_unchecked"
# How the state's reason of a payout begins that rests because the destination was changed.
CHANGE_HOLD = "The destination was changed: it rests until"
BELOW_THRESHOLD = "below_threshold"
COUNTRY_MINIMUM = "below_country_minimum"
NOT_MATURED = "not_matured"

_TEXTS = {
    HOUSE: "The operator's own nodes are not paid.",
    NOT_APPROVED: "The provider is not approved, or is suspended.",
    NO_ACCOUNT: "The provider has not connected a Stripe account.",
    ACCOUNT: "The Stripe account cannot receive transfers now.",
    BELOW_MINIMUM: "The available balance is below the smallest payout.",
    OPEN_PAYOUT: "An earlier payout is still open.",
    NEGATIVE: "The account's balance at Stripe is negative: Stripe would keep the transfer.",
    STRIPE: "Stripe could not be asked; the next run tries again.",
    BELOW_THRESHOLD: "The available balance has not reached the amount that the provider wants to be paid at.",
    COUNTRY_MINIMUM: "The available balance is below what banks in the provider's country take; it rolls over.",
    NOT_MATURED: "The provider has left; the rest is paid out once all earnings have matured.",
    CHANGED: "Where the money goes was changed: payouts rest until the moment below.",
    BANK_UNCHECKED: "The bank details wait for the operator's check.",
    OTHER_CURRENCY: "The earnings are in another currency than the pool pays in.",
}


def reason(code: str, detail: str = "") -> Reason:
    """Return the reason with its words."""
    return Reason(code=code, text=_TEXTS[code], detail=detail)
