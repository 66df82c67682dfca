"""Hosted Checkout: a session, how its buyer pays or does not, and what is made of it."""

from typing import cast

from stripe.params import checkout

from portal.sandbox.stripe_double import aftermath, cards, charges, currencies, customers, intents, invoices
from portal.sandbox.stripe_double.api import Call, created_within, matching, page, route
from portal.sandbox.stripe_double.cards import Card
from portal.sandbox.stripe_double.charges import Paid
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.store import Store

SESSION_LIFE_S = 24 * 3600
_TAX_BPS = "2000"


@route("POST", "/v1/checkout/sessions", checkout.SessionCreateParams)
def create_session(call: Call) -> Body:
    """Open a hosted page that waits for one payment."""
    if call.text("mode") != "payment":
        raise invalid("This stand-in only knows mode=payment", param="mode")
    call.store.get("customer", call.text("customer"), param="customer")
    if call.store.meta("charges_stopped"):
        raise Refusal(400, "account_invalid", "Your account cannot currently make live charges.")
    _check_tax(call)
    amount, currency = _total(call)
    number = call.store.new_id("cs_live" if call.is_live else "cs_test")
    session = _session(call, number, amount, currency)
    _remember(call, number)
    return call.store.put("checkout.session", session)


def _session(call: Call, number: str, amount: int, currency: str) -> Body:
    is_taxed = call.mapping("automatic_tax").get("enabled") is True
    return {
        "id": number,
        "object": "checkout.session",
        "amount_subtotal": amount,
        "amount_total": amount,
        "automatic_tax": {
            "enabled": is_taxed,
            "liability": None,
            "provider": "stripe" if is_taxed else None,
            "status": "requires_location_inputs" if is_taxed else None,
        },
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
        "tax_id_collection": {
            "enabled": call.mapping("tax_id_collection").get("enabled") is True,
            "required": "never",
        },
        "total_details": {"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0},
        "ui_mode": "hosted_page",
        "url": f"{call.base}/c/pay/{number}",
    }


def _check_tax(call: Call) -> None:
    is_asked = any(call.mapping(name).get("enabled") is True for name in ("automatic_tax", "tax_id_collection"))
    updates = call.mapping("customer_update")
    if is_asked and not {"address", "name"} <= {name for name, value in updates.items() if value == "auto"}:
        raise invalid(
            "Tax collection with an existing customer needs customer_update[address] and [name] set to auto.",
            param="customer_update",
        )


def _remember(call: Call, number: str) -> None:
    """Keep what the session asks for and does not show."""
    price = cast("Body", call.items("line_items")[0].get("price_data") or {})
    wishes = {
        "setup_future_usage": call.text("payment_intent_data", "setup_future_usage"),
        "request_three_d_secure": call.text("payment_method_options", "card", "request_three_d_secure"),
        "has_invoice": "1" if call.mapping("invoice_creation").get("enabled") is True else "",
        "tax_behavior": str(price.get("tax_behavior") or ""),
    }
    kept: Body = {"id": f"_wishes_{number}", "object": "_wishes", **wishes}
    kept["metadata"] = call.mapping("payment_intent_data", "metadata")
    kept["product"] = cast("Body", price.get("product_data") or {}).get("name", "")
    kept["invoice_metadata"] = call.mapping("invoice_creation", "invoice_data", "metadata")
    call.store.put("_wishes", kept)


def wishes(store: Store, session: Body) -> Body:
    """Return what the session asked for and does not show."""
    return store.get("_wishes", f"_wishes_{session['id']}")


def _total(call: Call) -> tuple[int, str]:
    lines = call.items("line_items")
    if not lines:
        raise invalid("Missing required param: line_items.", param="line_items", code="parameter_missing")
    prices = [cast("Body", line.get("price_data") or {}) for line in lines]
    found = {str(price.get("currency")) for price in prices}
    if len(found) != 1:
        raise invalid("All line items must be in one currency", param="line_items")
    amount = sum(
        cast("int", price.get("unit_amount", 0)) * cast("int", line.get("quantity", 1))
        for price, line in zip(prices, lines, strict=True)
    )
    currency = found.pop()
    currencies.check_charge(amount, currency, param="line_items")
    return amount, currency


@route("GET", "/v1/checkout/sessions/{session}", checkout.SessionRetrieveParams)
def read_session(call: Call) -> Body:
    """Answer with a session; one that is past its time has expired."""
    return lapse(call.store, call.store.get("checkout.session", call.names[0], param="session"))


@route("GET", "/v1/checkout/sessions", checkout.SessionListParams)
def list_sessions(call: Call) -> Body:
    """Answer with sessions, newest first, of one customer or payment where asked."""
    found = created_within(call, call.store.all("checkout.session"))
    return page(call, matching(call, found, "customer", "payment_intent", "status"))


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


def tick(store: Store) -> None:
    """Let time pass: sessions that nobody used expire."""
    for session in reversed(store.all("checkout.session")):
        lapse(store, session)


def require_open(store: Store, name: str) -> Body:
    """Return the session if its page may still be used. Raises Refusal."""
    session = lapse(store, store.get("checkout.session", name, param="session"))
    if session["status"] != "open":
        raise Refusal(410, "", "This page has been used or has expired.")
    return session


def add_tax(store: Store, session: Body, *, country: str, tax_id: str) -> None:
    """The buyer said where they are: tax is worked out."""
    is_taxed = cast("Body", session["automatic_tax"])["enabled"] is True
    behavior = wishes(store, session)["tax_behavior"]
    bps, subtotal = int(store.meta("tax_bps", _TAX_BPS)), cast("int", session["amount_subtotal"])
    if is_taxed:
        is_inclusive = behavior == "inclusive"
        tax = subtotal - subtotal * 10_000 // (10_000 + bps) if is_inclusive else subtotal * bps // 10_000
        session["automatic_tax"] = cast("Body", session["automatic_tax"]) | {"status": "complete"}
        session["total_details"] = {"amount_discount": 0, "amount_shipping": 0, "amount_tax": tax}
        session["amount_total"] = subtotal if is_inclusive else subtotal + tax
    if is_taxed or cast("Body", session["tax_id_collection"])["enabled"]:
        session["customer_details"] = {
            "address": _address(country),
            "business_name": None,
            "email": None,
            "individual_name": None,
            "name": None,
            "phone": None,
            "tax_exempt": "none",
            "tax_ids": [{"type": "eu_vat", "value": tax_id}] if tax_id else [],
        }
    store.put("checkout.session", session)


def _address(country: str) -> Body:
    parts = dict.fromkeys(("city", "line1", "line2", "postal_code", "state"))
    return {**parts, "country": country}


def must_confirm(store: Store, session: Body, card: Card) -> bool:
    """Tell whether the owner of this card has to confirm this payment."""
    is_asked = wishes(store, session)["request_three_d_secure"] in {"any", "challenge"}
    return card.confirms == "always" or (card.confirms == "if_asked" and is_asked)


def pay(store: Store, session: Body, *, card: Card, is_confirmed: bool = False) -> bool:
    """The buyer paid by card, or their bank refused and the page stays open; tell whether it worked."""
    method = customers.make_method(store, card)
    paid = Paid(method=method, card=card, is_confirmed=is_confirmed)
    intent = _intent(store, session, paid)
    if card.refuses[0]:
        charges.refuse(store, intent, paid, *card.refuses)
        return False
    charge = intents.succeed(store, intent, paid)
    if intent["setup_future_usage"]:
        store.set_meta(f"confirmed:{method['id']}", "1" if is_confirmed else "")
        customers.attach(store, method, str(session["customer"]))
    _complete(store, session, intent, "paid")
    invoices.bill(store, session, intent, wishes(store, session))
    emit(store, "checkout.session.completed", session)
    aftermath.follow(store, charge, card)
    return True


def _complete(store: Store, session: Body, intent: Body, payment_status: str) -> None:
    session |= {
        "status": "complete",
        "payment_status": payment_status,
        "payment_intent": intent["id"],
        "url": None,
    }
    store.put("checkout.session", session)


def fail_confirmation(store: Store, session: Body, *, card: Card) -> None:
    """The owner did not confirm: nothing is paid and the page stays open."""
    paid = Paid(method=customers.make_method(store, card), card=card)
    intent = _intent(store, session, paid)
    charges.refuse(store, intent, paid, "payment_intent_authentication_failure", "")


def decline(store: Store, session: Body) -> Body:
    """The card was refused; the page stays open for another try."""
    pay(store, session, card=cards.by_number("4000000000000002"))
    return session


def pay_later(store: Store, session: Body) -> Body:
    """The buyer chose a bank debit: the session is complete, and the money is not there yet."""
    intent = _intent(store, session, Paid())
    intent["status"] = "processing"
    store.put("payment_intent", intent)
    _complete(store, session, intent, "unpaid")
    emit(store, "payment_intent.processing", intent)
    emit(store, "checkout.session.completed", session)
    return session


def settle(store: Store, session: Body, *, is_good: bool) -> Body:
    """The bank debit went through, or it did not."""
    if session["payment_intent"] is None or session["payment_status"] == "paid":
        raise invalid("This payment is not waiting for a bank")
    intent = store.get("payment_intent", str(session["payment_intent"]))
    if intent["status"] != "processing":
        raise invalid("This payment is not waiting for a bank")
    if not is_good:
        charges.refuse(store, intent, Paid(), "debit_not_authorized", "")
        emit(store, "checkout.session.async_payment_failed", session)
        return session
    intents.succeed(store, intent, Paid())
    session["payment_status"] = "paid"
    store.put("checkout.session", session)
    invoices.bill(store, session, intent, wishes(store, session))
    emit(store, "checkout.session.async_payment_succeeded", session)
    return session


def _intent(store: Store, session: Body, paid: Paid) -> Body:
    """Return the session's payment: one for all its tries."""
    asked = wishes(store, session)
    name = store.meta(f"tried:{session['id']}")
    intent = store.find(name) or intents.make(
        store,
        {
            "amount": session["amount_total"],
            "currency": session["currency"],
            "customer": session["customer"],
            "metadata": asked["metadata"],
            "setup_future_usage": asked["setup_future_usage"] or None,
        },
    )
    intent |= {"amount": session["amount_total"], "payment_method": paid.method["id"] if paid.method else None}
    store.set_meta(f"tried:{session['id']}", str(intent["id"]))
    store.put("payment_intent", intent)
    return intent
