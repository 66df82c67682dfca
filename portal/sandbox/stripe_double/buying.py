"""Customers and hosted Checkout: a session, its payment, the charge and the money that comes in pending."""

from typing import cast

from stripe import params
from stripe.params import checkout

from portal.core import money
from portal.sandbox.stripe_double.api import Call, expanded, page, route
from portal.sandbox.stripe_double.balances import Line, book
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.store import Store

SESSION_LIFE_S = 24 * 3600
SETTLEMENT_S = 2 * 24 * 3600
_FEE_BPS = 290
_FIXED_FEE = {0: 30, 2: 30, 3: 90}
_LEAST = {0: 50, 2: 50, 3: 150}


@route("POST", "/v1/customers", params.CustomerCreateParams)
def create_customer(call: Call) -> Body:
    """Create a customer."""
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
        "email": call.text("email") or None,
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


@route("POST", "/v1/checkout/sessions", checkout.SessionCreateParams)
def create_session(call: Call) -> Body:
    """Open a hosted page that waits for one payment."""
    if call.text("mode") != "payment":
        raise invalid("This stand-in only knows mode=payment", param="mode")
    call.store.get("customer", call.text("customer"), param="customer")
    amount, currency = _total(call)
    number = call.store.new_id("cs_live" if call.is_live else "cs_test")
    session: Body = {
        "id": number,
        "object": "checkout.session",
        "amount_subtotal": amount,
        "amount_total": amount,
        "automatic_tax": {"enabled": False, "liability": None, "provider": None, "status": None},
        "cancel_url": call.text("cancel_url") or None,
        "client_reference_id": call.text("client_reference_id") or None,
        "created": call.store.now(),
        "currency": currency,
        "custom_fields": [],
        "custom_text": {
            "after_submit": None,
            "shipping_address": None,
            "submit": None,
            "terms_of_service_acceptance": None,
        },
        "customer": call.text("customer"),
        "expires_at": call.store.now() + SESSION_LIFE_S,
        "invoice": None,
        "livemode": call.is_live,
        "metadata": call.mapping("metadata"),
        "mode": "payment",
        "payment_intent": None,
        "payment_method_types": ["card"],
        "payment_status": "unpaid",
        "shipping_options": [],
        "status": "open",
        "success_url": call.text("success_url") or None,
        "ui_mode": "hosted_page",
        "url": f"{call.base}/c/pay/{number}",
    }
    call.store.set_meta(f"payment_metadata:{number}", _flat(call.mapping("payment_intent_data", "metadata")))
    return call.store.put("checkout.session", session)


def _flat(values: Body) -> str:
    return "\n".join(f"{name}={value}" for name, value in values.items())


def _total(call: Call) -> tuple[int, str]:
    lines = call.items("line_items")
    if not lines:
        raise invalid("Missing required param: line_items.", param="line_items", code="parameter_missing")
    prices = [cast("Body", line.get("price_data") or {}) for line in lines]
    currencies = {str(price.get("currency")) for price in prices}
    if len(currencies) != 1:
        raise invalid("All line items must be in one currency", param="line_items")
    amount = sum(
        cast("int", price.get("unit_amount", 0)) * cast("int", line.get("quantity", 1))
        for price, line in zip(prices, lines, strict=True)
    )
    currency = currencies.pop()
    if amount < _LEAST[money.exponent(currency)]:
        raise invalid("The Checkout Session's total amount is too small.", code="amount_too_small", param="line_items")
    return amount, currency


@route("GET", "/v1/checkout/sessions/{session}", checkout.SessionRetrieveParams)
def read_session(call: Call) -> Body:
    """Answer with a session; one that is past its time has expired."""
    session = lapse(call.store, call.store.get("checkout.session", call.names[0], param="session"))
    return expanded(call.store, session, cast("list[object]", call.items("expand")))


@route("POST", "/v1/checkout/sessions/{session}/expire", checkout.SessionExpireParams)
def expire_session(call: Call) -> Body:
    """Close an open session."""
    session = call.store.get("checkout.session", call.names[0], param="session")
    if session["status"] != "open":
        raise invalid('Only Checkout Sessions with a status in ["open"] can be expired.', param="session")
    return _expire(call.store, session)


def lapse(store: Store, session: Body) -> Body:
    """Expire a session whose time is over."""
    if session["status"] == "open" and cast("int", session["expires_at"]) <= store.now():
        return _expire(store, session)
    return session


def _expire(store: Store, session: Body) -> Body:
    session |= {"status": "expired", "url": None}
    store.put("checkout.session", session)
    emit(store, "checkout.session.expired", session)
    return session


@route("GET", "/v1/payment_intents/{intent}", params.PaymentIntentRetrieveParams)
def read_intent(call: Call) -> Body:
    """Answer with a payment."""
    intent = call.store.get("payment_intent", call.names[0], param="intent")
    return expanded(call.store, intent, cast("list[object]", call.items("expand")))


@route("GET", "/v1/charges/{charge}", params.ChargeRetrieveParams)
def read_charge(call: Call) -> Body:
    """Answer with a charge."""
    charge = call.store.get("charge", call.names[0], account=call.account, param="charge")
    return expanded(call.store, charge, cast("list[object]", call.items("expand")))


def require_open(store: Store, name: str) -> Body:
    """Return the session if its page may still be used. Raises Refusal."""
    session = lapse(store, store.get("checkout.session", name, param="session"))
    if session["status"] != "open":
        raise Refusal(410, "", "This page has been used or has expired.")
    return session


def pay(store: Store, session: Body) -> Body:
    """The buyer paid by card: the session is complete and the money pending."""
    intent = _intent(store, session, "succeeded")
    charge = _charge(store, session, intent)
    session |= {"status": "complete", "payment_status": "paid", "payment_intent": intent["id"], "url": None}
    store.put("checkout.session", session)
    emit(store, "charge.succeeded", charge)
    emit(store, "payment_intent.succeeded", intent)
    emit(store, "checkout.session.completed", session)
    return session


def pay_later(store: Store, session: Body) -> Body:
    """The buyer chose a bank debit: the session is complete, and the money is not there yet."""
    intent = _intent(store, session, "processing")
    session |= {"status": "complete", "payment_intent": intent["id"], "url": None}
    store.put("checkout.session", session)
    emit(store, "checkout.session.completed", session)
    return session


def settle(store: Store, session: Body, *, is_good: bool) -> Body:
    """The bank debit went through, or it did not."""
    intent = store.get("payment_intent", str(session["payment_intent"]))
    if session["payment_status"] == "paid" or intent["status"] != "processing":
        raise invalid("This payment is not waiting for a bank")
    if not is_good:
        intent |= {"status": "requires_payment_method", "last_payment_error": _payment_error("debit_not_authorized")}
        store.put("payment_intent", intent)
        emit(store, "checkout.session.async_payment_failed", session)
        return session
    intent |= {"status": "succeeded", "amount_received": intent["amount"]}
    store.put("payment_intent", intent)
    _charge(store, session, intent)
    session |= {"payment_status": "paid"}
    store.put("checkout.session", session)
    emit(store, "checkout.session.async_payment_succeeded", session)
    return session


def decline(store: Store, session: Body) -> Body:
    """The card was refused; the page stays open for another try."""
    intent = _intent(store, session, "requires_payment_method")
    intent["last_payment_error"] = _payment_error("card_declined")
    store.put("payment_intent", intent)
    emit(store, "payment_intent.payment_failed", intent)
    return session


def _payment_error(code: str) -> Body:
    return {"type": "card_error", "code": code, "message": "The payment was refused."}


def _intent(store: Store, session: Body, status: str) -> Body:
    received = session["amount_total"] if status == "succeeded" else 0
    kept = store.meta(f"payment_metadata:{session['id']}")
    intent: Body = {
        "id": store.new_id("pi"),
        "object": "payment_intent",
        "amount": session["amount_total"],
        "amount_received": received,
        "capture_method": "automatic_async",
        "confirmation_method": "automatic",
        "created": store.now(),
        "currency": session["currency"],
        "customer": session["customer"],
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": session["livemode"],
        "metadata": dict(line.split("=", 1) for line in kept.splitlines()),
        "payment_method_types": ["card"],
        "status": status,
        "transfer_group": None,
    }
    return store.put("payment_intent", intent)


def _charge(store: Store, session: Body, intent: Body) -> Body:
    amount, currency = cast("int", intent["amount"]), str(intent["currency"])
    number = store.new_id("ch")
    line = Line(
        type="charge",
        amount=amount,
        currency=currency,
        source=number,
        fee=amount * _FEE_BPS // 10_000 + _FIXED_FEE[money.exponent(currency)],
        available_in_s=int(store.meta("settlement_s", str(SETTLEMENT_S))),
    )
    booked = book(store, line)
    charge = charge_body(
        store,
        number,
        booked,
        {"payment_intent": intent["id"], "customer": session["customer"], "metadata": intent["metadata"]},
    )
    store.put("charge", charge)
    intent["latest_charge"] = number
    store.put("payment_intent", intent)
    return charge


def charge_body(store: Store, number: str, booked: Body, more: Body) -> Body:
    """Return a succeeded charge over a balance transaction."""
    body: Body = {
        "id": number,
        "object": "charge",
        "amount": booked["amount"],
        "amount_captured": booked["amount"],
        "amount_refunded": 0,
        "balance_transaction": booked["id"],
        "billing_details": {"address": None, "email": None, "name": None, "phone": None},
        "captured": True,
        "created": store.now(),
        "currency": booked["currency"],
        "customer": None,
        "disputed": False,
        "livemode": store.meta("is_live") == "1",
        "metadata": {},
        "paid": True,
        "payment_intent": None,
        "refunded": False,
        "status": "succeeded",
    }
    return body | more


@route("GET", "/v1/checkout/sessions", checkout.SessionListParams)
def list_sessions(call: Call) -> Body:
    """Answer with sessions, newest first."""
    return page(call, call.store.all("checkout.session"))
