"""Refunds: pending, done, or sent back by the card's bank; never more than was paid, never of a disputed charge."""

from dataclasses import dataclass, field
from typing import cast

from stripe import params

from portal.sandbox.stripe_double import cards, currencies, warnings
from portal.sandbox.stripe_double.api import Call, created_within, matching, page, route
from portal.sandbox.stripe_double.balances import Line, book, total
from portal.sandbox.stripe_double.charges import shown
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.store import Store

FAILS_AFTER_S = 3600
_OPEN = frozenset({"pending", "requires_action"})


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants back; amount 0 is all that is left."""

    amount: int = 0
    reason: str = ""
    metadata: Body = field(default_factory=dict)


@route("POST", "/v1/refunds", params.RefundCreateParams)
def create_refund(call: Call) -> Body:
    """Give part of a charge back."""
    wish = Wish(call.number("amount", default=0), call.text("reason"), call.mapping("metadata"))
    if "amount" in call.params and wish.amount < 1:
        raise currencies.too_small()
    return give_back(call.store, _charge(call), wish)


def _charge(call: Call) -> Body:
    if call.text("payment_intent"):
        intent = call.store.get("payment_intent", call.text("payment_intent"), param="payment_intent")
        if intent["latest_charge"] is None:
            raise invalid("This PaymentIntent does not have a successful charge to refund.", param="payment_intent")
        return call.store.get("charge", str(intent["latest_charge"]), param="charge")
    return call.store.get("charge", call.text("charge"), param="charge")


def give_back(store: Store, charge: Body, wish: Wish) -> Body:
    """Refund a charge. Raises Refusal where nothing is left, the charge is disputed or never succeeded."""
    amount = _check(charge, wish.amount)
    currency = str(charge["currency"])
    has_money = total(store, currency) >= amount
    if not has_money and store.meta("refund_shortage") == "refuse":
        raise currencies.short()
    refund: Body = {
        "id": store.new_id("re"),
        "object": "refund",
        "amount": amount,
        "balance_transaction": None,
        "charge": charge["id"],
        "created": store.now(),
        "currency": currency,
        "metadata": wish.metadata,
        "payment_intent": charge["payment_intent"],
        "reason": wish.reason or None,
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": "pending",
        "transfer_reversal": None,
    }
    manner = _manner(store, charge)
    if has_money:
        _take(store, refund, charge)
        refund["status"] = "pending" if manner == "pending" else "succeeded"
    store.put("refund", refund)
    if manner == "failed":
        store.set_meta(f"refund_fails:{refund['id']}", str(store.now() + FAILS_AFTER_S))
    _count(store, charge, amount)
    emit(store, "refund.created", refund)
    emit(store, "charge.refunded", charge)
    return refund


def _check(charge: Body, wanted: int) -> int:
    left = cast("int", charge["amount"]) - cast("int", charge["amount_refunded"])
    if charge["status"] != "succeeded":
        raise invalid(f"This charge has not succeeded: {charge['id']}", param="charge")
    if charge["disputed"]:
        raise invalid(f"Charge {charge['id']} has been charged back.", param="charge", code="charge_disputed")
    if left == 0:
        raise invalid(f"Charge {charge['id']} has already been refunded.", code="charge_already_refunded")
    if wanted > left:
        currency = str(charge["currency"])
        raise invalid(
            f"Refund amount ({shown(wanted, currency)}) is greater than unrefunded amount on charge"
            f" ({shown(left, currency)})",
            param="amount",
        )
    return wanted or left


def _manner(store: Store, charge: Body) -> str:
    method = store.find(str(charge["payment_method"]))
    return cards.of_method(store, method).refund if method else "pending"


def _take(store: Store, refund: Body, charge: Body) -> None:
    amount, currency = cast("int", refund["amount"]), str(refund["currency"])
    kind = "refund" if str(charge["id"]).startswith("ch_") else "payment_refund"
    line = Line(type=kind, amount=-amount, currency=currency, source=str(refund["id"]))
    refund["balance_transaction"] = book(store, line)["id"]


def _count(store: Store, charge: Body, amount: int) -> None:
    charge["amount_refunded"] = cast("int", charge["amount_refunded"]) + amount
    charge["refunded"] = charge["amount_refunded"] == charge["amount"]
    store.put("charge", charge)
    if charge["refunded"]:
        warnings.calm(store, charge)


def end(store: Store, refund: Body, *, is_good: bool, reason: str = "expired_or_canceled_card") -> Body:
    """The card's bank took the refund, or sent it back, which may follow a success. Raises Refusal."""
    charge = store.get("charge", str(refund["charge"]))
    if refund["status"] in {"failed", "canceled"} or (is_good and refund["status"] == "succeeded"):
        raise invalid(f"This refund has ended: {refund['status']}", param="refund")
    if is_good:
        if refund["balance_transaction"] is None:
            _take(store, refund, charge)
        refund["status"] = "succeeded"
    else:
        _fail(store, refund, charge, reason)
    store.put("refund", refund)
    emit(store, "refund.updated" if is_good else "refund.failed", refund)
    emit(store, "charge.refund.updated", refund)
    return refund


def _fail(store: Store, refund: Body, charge: Body, reason: str) -> None:
    amount, currency = cast("int", refund["amount"]), str(refund["currency"])
    if refund["balance_transaction"] is not None:
        line = Line(type="refund_failure", amount=amount, currency=currency, source=str(refund["id"]))
        refund["failure_balance_transaction"] = book(store, line)["id"]
    refund |= {"status": "failed", "failure_reason": reason}
    charge["amount_refunded"] = cast("int", charge["amount_refunded"]) - amount
    charge["refunded"] = False
    store.put("charge", charge)


def tick(store: Store) -> None:
    """Let time pass: a refund that waited for money gets it, and those that fail later fail."""
    for refund in reversed(store.all("refund")):
        fails_at = store.meta(f"refund_fails:{refund['id']}")
        waits = refund["status"] in _OPEN and refund["balance_transaction"] is None
        if refund["status"] == "succeeded" and fails_at and int(fails_at) <= store.now():
            end(store, refund, is_good=False)
        elif waits and total(store, str(refund["currency"])) >= cast("int", refund["amount"]):
            end(store, refund, is_good=True)


@route("POST", "/v1/refunds/{refund}/cancel", params.RefundCancelParams)
def cancel_refund(call: Call) -> Body:
    """Refuse: only refunds that wait for the buyer can be cancelled, and cards have none."""
    refund: Body = call.store.get("refund", call.names[0], param="refund")
    raise Refusal(400, "", f"Refund {refund['id']} cannot be canceled.", param="refund")


@route("GET", "/v1/refunds/{refund}", params.RefundRetrieveParams)
def read_refund(call: Call) -> Body:
    """Answer with a refund."""
    return call.store.get("refund", call.names[0], param="refund")


@route("GET", "/v1/refunds", params.RefundListParams)
def list_refunds(call: Call) -> Body:
    """Answer with refunds, newest first, of one charge or payment where asked."""
    found = created_within(call, call.store.all("refund"))
    return page(call, matching(call, found, "charge", "payment_intent"))
