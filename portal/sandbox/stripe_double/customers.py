"""Customers and the payment methods that they saved."""

from stripe import params

from portal.sandbox.stripe_double import cards
from portal.sandbox.stripe_double.api import Call, page, route
from portal.sandbox.stripe_double.cards import Card
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid, missing
from portal.sandbox.stripe_double.store import Store


@route("POST", "/v1/customers", params.CustomerCreateParams)
def create_customer(call: Call) -> Body:
    """Create a customer. Raises Refusal."""
    email = call.text("email")
    if email and "@" not in email:
        raise invalid(f"Invalid email address: {email}", param="email", code="email_invalid")
    customer: Body = {
        "id": call.store.new_id("cus"),
        "object": "customer",
        "address": None,
        "balance": 0,
        "created": call.store.now(),
        "currency": None,
        "default_source": None,
        "delinquent": False,
        "description": call.text("description") or None,
        "email": email or None,
        "invoice_prefix": call.store.new_id("inv")[-8:].upper(),
        "livemode": call.is_live,
        "metadata": call.mapping("metadata"),
        "name": call.text("name") or None,
        "phone": None,
        "preferred_locales": [],
        "shipping": None,
        "tax_exempt": "none",
    }
    return call.store.put("customer", customer)


@route("GET", "/v1/customers/{customer}", params.CustomerRetrieveParams)
def read_customer(call: Call) -> Body:
    """Answer with a customer."""
    return call.store.get("customer", call.names[0], param="customer")


@route("GET", "/v1/customers/{customer}/payment_methods", params.CustomerListPaymentMethodsParams)
def list_methods(call: Call) -> Body:
    """Answer with what the customer has saved, newest first."""
    customer = call.store.get("customer", call.names[0], param="customer")
    found = [body for body in call.store.all("payment_method") if body["customer"] == customer["id"]]
    wanted = call.text("type")
    return page(call, [body for body in found if not wanted or body["type"] == wanted])


@route("POST", "/v1/payment_methods/{payment_method}/attach", params.PaymentMethodAttachParams)
def attach_method(call: Call) -> Body:
    """Save a payment method for a customer; a test card's name makes a fresh one."""
    customer = call.store.get("customer", call.text("customer"), param="customer")
    known = cards.by_method(call.names[0])
    method = make_method(call.store, known) if known else call.store.get("payment_method", call.names[0])
    card = cards.of_method(call.store, method)
    if card.refuses[0] and not card.saves_well:
        raise Refusal(402, card.refuses[0], "Your card was declined.", type="card_error")
    return attach(call.store, method, str(customer["id"]))


@route("POST", "/v1/payment_methods/{payment_method}/detach", params.PaymentMethodDetachParams)
def detach_method(call: Call) -> Body:
    """Take a payment method off its customer; it cannot be used again."""
    method = call.store.get("payment_method", call.names[0], param="payment_method")
    if method["customer"] is None:
        raise invalid(
            "The payment method you provided is not attached to a customer so detachment is impossible.",
            param="payment_method",
        )
    method["customer"] = None
    call.store.put("payment_method", method)
    emit(call.store, "payment_method.detached", method, request=call.request_id)
    return method


@route("GET", "/v1/payment_methods/{payment_method}", params.PaymentMethodRetrieveParams)
def read_method(call: Call) -> Body:
    """Answer with a payment method."""
    return call.store.get("payment_method", call.names[0], param="payment_method")


def make_method(store: Store, card: Card) -> Body:
    """Keep a card that somebody typed in."""
    method: Body = {
        "id": store.new_id("pm"),
        "object": "payment_method",
        "allow_redisplay": "unspecified",
        "billing_details": {"address": None, "email": None, "name": None, "phone": None, "tax_id": None},
        "card": cards.details(card),
        "created": store.now(),
        "customer": None,
        "livemode": store.meta("is_live") == "1",
        "metadata": {},
        "type": "card",
    }
    store.put("payment_method", method)
    cards.behave(store, method, card)
    return method


def attach(store: Store, method: Body, customer: str) -> Body:
    """Save a payment method for a customer."""
    method["customer"] = customer
    store.put("payment_method", method)
    emit(store, "payment_method.attached", method)
    return method


def saved_method(store: Store, name: str, customer: str) -> Body:
    """Return a payment method that this customer has saved. Raises Refusal."""
    method = store.find(name)
    if method is None or method.get("object") != "payment_method":
        raise missing("PaymentMethod", name, "payment_method")
    if method["customer"] != customer:
        raise invalid(
            "The payment method does not belong to the customer you supplied. Please attach it first.",
            param="payment_method",
            code="payment_method_customer_mismatch" if method["customer"] else "",
        )
    return method
