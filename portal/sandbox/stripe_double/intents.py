"""PaymentIntents: a charge of a saved card while its owner is away, and what Checkout makes at its page."""

from typing import cast

from stripe import params

from portal.sandbox.stripe_double import aftermath, cards, charges, currencies, customers
from portal.sandbox.stripe_double.api import Call, created_within, matching, page, route
from portal.sandbox.stripe_double.charges import Paid
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.store import Store

_PAYMENT_REQUIRED = 402


@route("POST", "/v1/payment_intents", params.PaymentIntentCreateParams)
def create_intent(call: Call) -> Body:
    """Charge a saved card now. Raises Refusal where its bank refuses; the payment is kept."""
    amount, currency, customer = call.number("amount"), call.text("currency"), call.text("customer")
    if call.params.get("confirm") is not True or call.params.get("off_session") is not True:
        raise invalid("This stand-in only knows off_session=true with confirm=true", param="confirm")
    currencies.check_charge(amount, currency)
    call.store.get("customer", customer, param="customer")
    method = customers.saved_method(call.store, call.text("payment_method"), customer)
    wanted: Body = {"amount": amount, "currency": currency, "customer": customer, "metadata": call.mapping("metadata")}
    return charge_away(call.store, wanted, method)


def charge_away(store: Store, wanted: Body, method: Body) -> Body:
    """Charge the card while its owner is away. Raises Refusal."""
    intent = make(store, wanted)
    card = cards.of_method(store, method)
    paid = Paid(method=method, card=card)
    intent["payment_method"] = method["id"]
    if card.away == "asks" or (card.away == "if_set_up" and not store.meta(f"confirmed:{method['id']}")):
        raise _refusal(store, intent, paid, "authentication_required", "authentication_required")
    if card.refuses[0]:
        raise _refusal(store, intent, paid, *card.refuses)
    finish(store, intent, paid)
    return intent


def _refusal(store: Store, intent: Body, paid: Paid, code: str, decline: str) -> Refusal:
    error = charges.refuse(store, intent, paid, code, decline)
    more = {name: value for name, value in error.items() if name not in {"type", "code", "message"}}
    return Refusal(
        _PAYMENT_REQUIRED,
        code,
        str(error["message"]),
        type="card_error",
        is_kept=True,
        more=more | {"payment_intent": intent},
    )


def make(store: Store, wanted: Body) -> Body:
    """Keep a payment that nobody has paid yet."""
    intent: Body = {
        "id": store.new_id("pi"),
        "object": "payment_intent",
        "amount": 0,
        "amount_received": 0,
        "capture_method": "automatic_async",
        "confirmation_method": "automatic",
        "created": store.now(),
        "currency": "",
        "customer": None,
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": store.meta("is_live") == "1",
        "metadata": {},
        "payment_method": None,
        "payment_method_types": ["card"],
        "setup_future_usage": None,
        "status": "requires_payment_method",
        "transfer_group": None,
    }
    return store.put("payment_intent", intent | wanted)


def finish(store: Store, intent: Body, paid: Paid) -> Body:
    """The payment is made: book it, tell about it, and let the card do what it does later. Return the charge."""
    charge = succeed(store, intent, paid)
    if paid.card:
        aftermath.follow(store, charge, paid.card)
    return charge


def succeed(store: Store, intent: Body, paid: Paid) -> Body:
    """Book the payment and tell about it; return the charge."""
    charge = charges.succeed(store, intent, paid)
    emit(store, "charge.succeeded", charge)
    emit(store, "payment_intent.succeeded", intent)
    return charge


@route("GET", "/v1/payment_intents/{intent}", params.PaymentIntentRetrieveParams)
def read_intent(call: Call) -> Body:
    """Answer with a payment."""
    return call.store.get("payment_intent", call.names[0], param="intent")


@route("GET", "/v1/payment_intents", params.PaymentIntentListParams)
def list_intents(call: Call) -> Body:
    """Answer with payments, newest first, of one customer where asked."""
    found = created_within(call, call.store.all("payment_intent"))
    return page(call, matching(call, found, "customer"))


@route("POST", "/v1/payment_intents/{intent}/cancel", params.PaymentIntentCancelParams)
def cancel_intent(call: Call) -> Body:
    """Give a payment up that nobody has paid."""
    intent = call.store.get("payment_intent", call.names[0], param="intent")
    if intent["status"] in {"succeeded", "processing", "canceled"}:
        raise invalid(
            f"You cannot cancel this PaymentIntent because it has a status of {cast('str', intent['status'])}.",
            code="payment_intent_unexpected_state",
            param="intent",
        )
    intent["status"] = "canceled"
    call.store.put("payment_intent", intent)
    emit(call.store, "payment_intent.canceled", intent, request=call.request_id)
    return intent
