"""Charges: money that came in, pending until it settles, and tries that a bank refused."""

from dataclasses import dataclass
from typing import cast

from stripe import params

from portal.core import money
from portal.sandbox.stripe_double import cards, currencies
from portal.sandbox.stripe_double.api import Call, created_within, matching, page, route
from portal.sandbox.stripe_double.balances import Line, book
from portal.sandbox.stripe_double.cards import Card
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body
from portal.sandbox.stripe_double.store import Store

SETTLEMENT_S = 2 * 24 * 3600
_MESSAGES = {
    "authentication_required": "This transaction requires authentication.",
    "card_declined": "Your card was declined.",
    "expired_card": "Your card has expired.",
    "incorrect_cvc": "Your card's security code is incorrect.",
    "processing_error": "An error occurred while processing your card. Try again in a little bit.",
}


@dataclass(frozen=True, slots=True)
class Paid:
    """How a payment was made: by which method, and whether its owner confirmed it. No card: a bank debit."""

    method: Body | None = None
    card: Card | None = None
    is_confirmed: bool = False


@route("GET", "/v1/charges/{charge}", params.ChargeRetrieveParams)
def read_charge(call: Call) -> Body:
    """Answer with a charge."""
    return call.store.get("charge", call.names[0], account=call.account, param="charge")


@route("GET", "/v1/charges", params.ChargeListParams)
def list_charges(call: Call) -> Body:
    """Answer with charges, newest first."""
    found = created_within(call, call.store.all("charge", account=call.account))
    return page(call, matching(call, found, "customer", "payment_intent"))


def succeed(store: Store, intent: Body, paid: Paid) -> Body:
    """Book the payment and return its charge."""
    amount, currency = cast("int", intent["amount"]), str(intent["currency"])
    number = store.new_id("ch" if paid.card else "py")
    settles_in_s = 0 if paid.card and paid.card.is_instant else int(store.meta("settlement_s", str(SETTLEMENT_S)))
    line = Line(
        type="charge" if paid.card else "payment",
        amount=amount,
        currency=currency,
        source=number,
        fee=currencies.fee(store, amount, currency),
        available_in_s=settles_in_s,
    )
    more = _about(intent, paid) | {"outcome": _outcome("authorized", "normal")}
    charge = store.put("charge", charge_body(store, number, book(store, line), more))
    intent |= {"latest_charge": number, "status": "succeeded", "amount_received": amount, "last_payment_error": None}
    store.put("payment_intent", intent)
    return charge


def refuse(store: Store, intent: Body, paid: Paid, code: str, decline: str) -> Body:
    """Keep the try that the bank refused, tell about it, and return the error as Stripe words it."""
    number = store.new_id("ch")
    message = _MESSAGES.get(code, "The payment was refused.")
    tried: Body = {"amount": intent["amount"], "currency": intent["currency"], "id": None}
    charge = charge_body(store, number, tried, _about(intent, paid))
    charge |= {
        "amount_captured": 0,
        "captured": False,
        "failure_code": code,
        "failure_message": message,
        "outcome": _outcome("blocked" if decline == "fraudulent" else "issuer_declined", "elevated"),
        "paid": False,
        "status": "failed",
    }
    store.put("charge", charge)
    error: Body = {"type": "card_error", "code": code, "message": message, "charge": number}
    if decline:
        error["decline_code"] = decline
    if paid.method:
        error["payment_method"] = paid.method
    intent |= {"latest_charge": number, "status": "requires_payment_method", "last_payment_error": error}
    store.put("payment_intent", intent)
    emit(store, "charge.failed", charge)
    emit(store, "payment_intent.payment_failed", intent)
    return error


def _about(intent: Body, paid: Paid) -> Body:
    return {
        "payment_intent": intent["id"],
        "customer": intent["customer"],
        "metadata": intent["metadata"],
        "payment_method": paid.method["id"] if paid.method else None,
        "payment_method_details": _details(paid),
    }


def _details(paid: Paid) -> Body:
    if paid.card is None or paid.method is None:
        return {"type": "us_bank_account"}
    secure: Body = {
        "authentication_flow": "challenge",
        "result": "authenticated",
        "result_reason": None,
        "version": "2.2.0",
    }
    shown = cards.details(paid.card) | cast("Body", paid.method["card"])
    return {"type": "card", "card": shown | {"three_d_secure": secure if paid.is_confirmed else None}}


def _outcome(kind: str, risk: str) -> Body:
    return {
        "network_status": "approved_by_network" if kind == "authorized" else "declined_by_network",
        "reason": None,
        "risk_level": risk,
        "seller_message": "Payment complete." if kind == "authorized" else "The bank did not say more.",
        "type": kind,
    }


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
        "failure_code": None,
        "failure_message": None,
        "livemode": store.meta("is_live") == "1",
        "metadata": {},
        "paid": True,
        "payment_intent": None,
        "payment_method": None,
        "receipt_url": f"{store.meta('base')}/r/{number}",
        "refunded": False,
        "status": "succeeded",
    }
    return body | more


def shown(amount: int, currency: str) -> str:
    """Return an amount for a page."""
    digits = money.exponent(currency)
    whole, rest = divmod(amount, 10**digits)
    return f"{whole}.{rest:0{digits}d} {currency.upper()}" if digits else f"{whole} {currency.upper()}"
