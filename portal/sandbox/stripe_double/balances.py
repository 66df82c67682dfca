"""Stripe's own books: balance transactions, what is available and what is still pending."""

from dataclasses import dataclass
from typing import cast

from stripe import params

from portal.sandbox.stripe_double.api import Call, created_within, matching, page, route
from portal.sandbox.stripe_double.faults import Body
from portal.sandbox.stripe_double.store import Store

_CATEGORIES = {
    "adjustment": "dispute",
    "payment": "charge",
    "payment_refund": "refund",
    "transfer_refund": "transfer_reversal",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One movement to book; `available_in_s` is how long it stays pending."""

    type: str
    amount: int
    currency: str
    source: str
    fee: int = 0
    available_in_s: int = 0


def book(store: Store, line: Line, *, account: str = "") -> Body:
    """Write one balance transaction and return it."""
    now = store.now()
    body: Body = {
        "id": store.new_id("txn"),
        "object": "balance_transaction",
        "amount": line.amount,
        "available_on": now + line.available_in_s,
        "balance_type": "payments",
        "created": now,
        "currency": line.currency,
        "description": None,
        "exchange_rate": None,
        "fee": line.fee,
        "fee_details": _fee_details(line),
        "net": line.amount - line.fee,
        "reporting_category": _CATEGORIES.get(line.type, line.type),
        "source": line.source,
        "status": "pending" if line.available_in_s else "available",
        "type": line.type,
    }
    store.put("balance_transaction", body, account=account)
    store.rows(
        "INSERT INTO lines VALUES (?, ?, ?, ?, ?)",
        body["id"],
        account,
        line.currency,
        line.amount - line.fee,
        body["available_on"],
    )
    return body


def _fee_details(line: Line) -> list[Body]:
    if not line.fee:
        return []
    detail: Body = {
        "amount": line.fee,
        "application": None,
        "currency": line.currency,
        "description": "Stripe processing fees",
        "type": "stripe_fee",
    }
    return [detail]


def available(store: Store, currency: str, *, account: str = "") -> int:
    """Return what may be moved now."""
    found = store.rows(
        "SELECT COALESCE(SUM(net), 0) FROM lines WHERE account = ? AND currency = ? AND available_on <= ?",
        account,
        currency,
        store.now(),
    )
    return int(str(found[0][0]))


def total(store: Store, currency: str, *, account: str = "") -> int:
    """Return what is there, available or pending."""
    found = store.rows("SELECT COALESCE(SUM(net), 0) FROM lines WHERE account = ? AND currency = ?", account, currency)
    return int(str(found[0][0]))


def drain(store: Store, currency: str, *, leave: int, reference: str) -> int:
    """Pay the platform's available balance out to its bank but for `leave`; return the amount."""
    amount = available(store, currency) - leave
    if amount > 0:
        book(store, Line(type="payout", amount=-amount, currency=currency, source=reference))
    return max(amount, 0)


@route("GET", "/v1/balance", params.BalanceRetrieveParams)
def read_balance(call: Call) -> Body:
    """Answer with what is available and pending."""
    found = call.store.rows(
        "SELECT currency, SUM(CASE WHEN available_on <= ? THEN net ELSE 0 END),"
        " SUM(CASE WHEN available_on > ? THEN net ELSE 0 END)"
        " FROM lines WHERE account = ? GROUP BY currency ORDER BY currency",
        call.store.now(),
        call.store.now(),
        call.account,
    )
    if not found:
        found = [(call.store.meta("currency", "usd"), 0, 0)]
    return {
        "object": "balance",
        "livemode": call.is_live,
        "available": [_amount(currency, ready) for currency, ready, _ in found],
        "pending": [_amount(currency, waiting) for currency, _, waiting in found],
    }


def _amount(currency: object, amount: object) -> Body:
    return {"amount": amount, "currency": currency, "source_types": {"card": amount}}


@route("GET", "/v1/balance_transactions", params.BalanceTransactionListParams)
def list_balance_transactions(call: Call) -> Body:
    """Answer with balance transactions, newest first; `payout` keeps those that one bank payout carried."""
    found = created_within(call, call.store.all("balance_transaction", account=call.account))
    found = matching(call, found, "currency", "source", "type")
    if call.text("payout"):
        carried = call.store.meta(f"carried:{call.text('payout')}").split()
        found = [body for body in found if body["id"] in carried]
    return page(call, [_current(call.store, body) for body in found])


@route("GET", "/v1/balance_transactions/{id}", params.BalanceTransactionRetrieveParams)
def read_balance_transaction(call: Call) -> Body:
    """Answer with one balance transaction."""
    return _current(call.store, call.store.get("balance_transaction", call.names[0], account=call.account))


def _current(store: Store, body: Body) -> Body:
    ripe = cast("int", body["available_on"]) <= store.now()
    return {**body, "status": "available" if ripe else "pending"}
