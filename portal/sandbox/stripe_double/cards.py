"""Stripe's test cards: a number says what its bank does, at the page and when its owner is away."""

import hashlib
from dataclasses import dataclass

from portal.sandbox.stripe_double.faults import Body, invalid
from portal.sandbox.stripe_double.store import Store

USUAL = "4242424242424242"
_NEVER, _IF_ASKED, _ALWAYS = "never", "if_asked", "always"


@dataclass(frozen=True, slots=True)
class Card:
    """One test card. `refuses` is what its bank answers; `confirms` says when its owner must confirm at the page.

    `away` says what happens without the owner: `ok`, `if_set_up` (only after a confirmed payment saved it) or `asks`.
    """

    number: str
    title: str
    method: str = ""
    brand: str = "visa"
    country: str = "US"
    refuses: tuple[str, str] = ("", "")
    confirms: str = _NEVER
    away: str = "ok"
    dispute: str = ""
    is_stolen: bool = False
    is_instant: bool = False
    refund: str = ""
    saves_well: bool = True

    @property
    def last4(self) -> str:
        """The digits that everybody may see."""
        return self.number[-4:]


def _refusing(number: str, title: str, method: str, *, code: str = "card_declined", decline: str = "") -> Card:
    return Card(number, title, method, refuses=(code, decline), saves_well=False)


_KNOWN = (
    Card(USUAL, "accepted", "pm_card_visa"),
    Card("5555555555554444", "accepted (Mastercard)", "pm_card_mastercard", brand="mastercard"),
    Card("378282246310005", "accepted (American Express)", "pm_card_amex", brand="amex"),
    Card("4000002760000016", "accepted (Germany)", "pm_card_de", country="DE"),
    Card("4000000000000077", "accepted, money at once", "pm_card_bypassPending", is_instant=True),
    _refusing("4000000000000002", "declined", "pm_card_visa_chargeDeclined", decline="generic_decline"),
    _refusing(
        "4000000000009995",
        "has too little money",
        "pm_card_visa_chargeDeclinedInsufficientFunds",
        decline="insufficient_funds",
    ),
    _refusing("4000000000009987", "was lost", "pm_card_visa_chargeDeclinedLostCard", decline="lost_card"),
    _refusing("4000000000009979", "was stolen", "pm_card_visa_chargeDeclinedStolenCard", decline="stolen_card"),
    _refusing("4000000000000069", "has expired", "pm_card_chargeDeclinedExpiredCard", code="expired_card"),
    _refusing("4000000000000127", "has another code", "pm_card_chargeDeclinedIncorrectCvc", code="incorrect_cvc"),
    _refusing(
        "4000000000000119",
        "meets an error at its bank",
        "pm_card_chargeDeclinedProcessingError",
        code="processing_error",
    ),
    _refusing("4100000000000019", "blocked as fraud", "pm_card_radarBlock", decline="fraudulent"),
    Card(
        "4000000000000341",
        "can be saved, then declines",
        "pm_card_chargeCustomerFail",
        refuses=("card_declined", "generic_decline"),
    ),
    Card(
        "4000000000003220",
        "must be confirmed (3-D Secure)",
        "pm_card_threeDSecure2Required",
        confirms=_ALWAYS,
        away="asks",
    ),
    Card("4000000000003055", "may be confirmed (3-D Secure)", "pm_card_threeDSecureOptional", confirms=_IF_ASKED),
    Card(
        "4000002500003155",
        "must be confirmed once, then saved",
        "pm_card_authenticationRequiredOnSetup",
        country="FR",
        confirms=_ALWAYS,
        away="if_set_up",
    ),
    Card(
        "4000002760003184",
        "must be confirmed every time",
        "pm_card_authenticationRequired",
        country="DE",
        confirms=_ALWAYS,
        away="asks",
    ),
    Card(
        "4000008260003178",
        "must be confirmed, then has too little money",
        "pm_card_authenticationRequiredChargeDeclinedInsufficientFunds",
        country="GB",
        refuses=("card_declined", "insufficient_funds"),
        confirms=_ALWAYS,
        away="asks",
    ),
    Card("4000000000005423", "accepted, then reported as stolen", "pm_card_createIssuerFraudRecord", is_stolen=True),
    Card("4000000000000259", "accepted, then disputed as fraud", "pm_card_createDispute", dispute="fraudulent"),
    Card(
        "4000000000002685",
        "accepted, then disputed as not received",
        "pm_card_createDisputeProductNotReceived",
        dispute="product_not_received",
    ),
    Card("4000000000001976", "accepted, then asked about", "pm_card_createDisputeInquiry", dispute="inquiry"),
    Card("4000000000007726", "accepted, refunds take a while", "pm_card_pendingRefund", refund="pending"),
    Card("4000000000005126", "accepted, refunds fail later", "pm_card_refundFail", refund="failed"),
)
CARDS = {card.number: card for card in _KNOWN}
_METHODS = {card.method: card.number for card in _KNOWN}


def by_number(number: str) -> Card:
    """Return the card with this number; any other number is refused as wrong. Raises Refusal."""
    card = CARDS.get(number.replace(" ", ""))
    if card is None:
        raise invalid("Your card number is incorrect.", param="number", code="incorrect_number")
    return card


def by_method(name: str) -> Card | None:
    """Return the card behind one of Stripe's test payment methods, such as `pm_card_visa`."""
    number = _METHODS.get(name)
    return CARDS[number] if number else None


def fingerprint(number: str) -> str:
    """Return what is the same for one number, whoever shows it."""
    return hashlib.sha256(f"card {number}".encode()).hexdigest()[:16]


def of_method(store: Store, method: Body) -> Card:
    """Return how the card behind a payment method behaves now."""
    return CARDS[store.meta(f"card:{method['id']}", USUAL)]


def behave(store: Store, method: Body, card: Card) -> None:
    """Make a payment method's bank behave like this card's from now on; its number stays what it was."""
    store.set_meta(f"card:{method['id']}", card.number)


def details(card: Card) -> Body:
    """Return what a payment method tells about its card."""
    return {
        "brand": card.brand,
        "checks": {"address_line1_check": None, "address_postal_code_check": None, "cvc_check": "pass"},
        "country": card.country,
        "exp_month": 12,
        "exp_year": 2034,
        "fingerprint": fingerprint(card.number),
        "funding": "credit",
        "last4": card.last4,
    }
