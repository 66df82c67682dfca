"""Transfers to connected accounts, their reversals, and what their banks do with the money."""

from typing import cast

from stripe import params

from portal.sandbox.stripe_double.api import Call, page, route
from portal.sandbox.stripe_double.balances import Line, available, book
from portal.sandbox.stripe_double.buying import charge_body
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.store import Store

WHOLE_UNITS = frozenset({"isk", "huf", "twd", "ugx"})
_ARRIVAL_S = 2 * 24 * 3600


@route("POST", "/v1/transfers", params.TransferCreateParams)
def create_transfer(call: Call) -> Body:
    """Move available money of the platform to an account that may receive it."""
    amount, currency = call.number("amount"), call.text("currency")
    account = _destination(call)
    if amount < 1:
        raise invalid(
            "This value must be greater than or equal to 1.", param="amount", code="parameter_invalid_integer"
        )
    if currency in WHOLE_UNITS and amount % 100:
        raise invalid(f"Amounts in {currency} must be whole units.", param="amount")
    if available(call.store, currency) < amount:
        raise Refusal(400, "balance_insufficient", "You have insufficient available funds in your Stripe account.")
    number = call.store.new_id("tr")
    booked = book(call.store, Line(type="transfer", amount=-amount, currency=currency, source=number))
    arrived = call.store.new_id("py")
    received = book(
        call.store, Line(type="payment", amount=amount, currency=currency, source=arrived), account=str(account["id"])
    )
    call.store.put(
        "charge", charge_body(call.store, arrived, received, {"source_transfer": number}), account=str(account["id"])
    )
    transfer: Body = {
        "id": number,
        "object": "transfer",
        "amount": amount,
        "amount_reversed": 0,
        "balance_transaction": booked["id"],
        "created": call.store.now(),
        "currency": currency,
        "description": call.text("description") or None,
        "destination": account["id"],
        "destination_payment": arrived,
        "livemode": call.is_live,
        "metadata": call.mapping("metadata"),
        "reversals": {"object": "list", "data": [], "has_more": False, "url": f"/v1/transfers/{number}/reversals"},
        "reversed": False,
        "source_transaction": None,
        "source_type": "card",
        "transfer_group": call.text("transfer_group") or None,
    }
    call.store.put("transfer", transfer)
    emit(call.store, "transfer.created", transfer, request=call.request_id)
    return transfer


def _destination(call: Call) -> Body:
    name = call.text("destination")
    account = call.store.find(name)
    if account is None or account.get("object") != "v2.core.account":
        raise Refusal(400, "resource_missing", f"No such destination: '{name}'", param="destination")
    if account["closed"]:
        raise Refusal(400, "account_invalid", "The destination account is closed.", param="destination")
    capabilities = cast("Body", account["configuration"])["recipient"]
    status = cast("dict[str, dict[str, dict[str, Body]]]", capabilities)["capabilities"]["stripe_balance"].get(
        "stripe_transfers"
    )
    if status is None or status["status"] != "active":
        raise Refusal(
            400,
            "insufficient_capabilities_for_transfer",
            "Your destination account needs to have at least one of the following capabilities enabled: transfers.",
            param="destination",
        )
    return account


@route("GET", "/v1/transfers", params.TransferListParams)
def list_transfers(call: Call) -> Body:
    """Answer with transfers, newest first, of one group or destination where asked."""
    found = call.store.all("transfer")
    for name in ("transfer_group", "destination"):
        wanted = call.text(name)
        if wanted:
            found = [body for body in found if body[name] == wanted]
    return page(call, found)


@route("GET", "/v1/transfers/{transfer}", params.TransferRetrieveParams)
def read_transfer(call: Call) -> Body:
    """Answer with a transfer."""
    return call.store.get("transfer", call.names[0], param="transfer")


@route("POST", "/v1/transfers/{id}/reversals", params.TransferCreateReversalParams)
def create_reversal(call: Call) -> Body:
    """Take a transfer back, as far as the account still has the money."""
    transfer = call.store.get("transfer", call.names[0])
    reversal = reverse(call.store, transfer, amount=call.number("amount", default=0))
    return {**reversal, "metadata": call.mapping("metadata")}


def reverse(store: Store, transfer: Body, *, amount: int) -> Body:
    """Take `amount` back, or all that is left of the transfer where it is 0. Raises Refusal."""
    left = cast("int", transfer["amount"]) - cast("int", transfer["amount_reversed"])
    amount = amount or left
    account, currency = str(transfer["destination"]), str(transfer["currency"])
    if not 1 <= amount <= left:
        raise invalid(f"Unable to reverse more than {left}", param="amount")
    if available(store, currency, account=account) < amount:
        raise Refusal(400, "balance_insufficient", "The connected account's balance does not cover the reversal.")
    number = store.new_id("trr")
    back = book(store, Line(type="transfer_refund", amount=amount, currency=currency, source=number))
    book(store, Line(type="payment_refund", amount=-amount, currency=currency, source=number), account=account)
    reversal: Body = {
        "id": number,
        "object": "transfer_reversal",
        "amount": amount,
        "balance_transaction": back["id"],
        "created": store.now(),
        "currency": currency,
        "destination_payment_refund": None,
        "metadata": {},
        "source_refund": None,
        "transfer": transfer["id"],
    }
    transfer["amount_reversed"] = cast("int", transfer["amount_reversed"]) + amount
    transfer["reversed"] = transfer["amount_reversed"] == transfer["amount"]
    store.put("transfer", transfer)
    emit(store, "transfer.reversed", transfer)
    return reversal


@route("GET", "/v1/payouts/{payout}", params.PayoutRetrieveParams)
def read_payout(call: Call) -> Body:
    """Answer with a connected account's payout to its bank."""
    return call.store.get("payout", call.names[0], account=call.account, param="payout")


def run_bank_payouts(store: Store) -> list[Body]:
    """Do what Stripe does on its own: pay every connected account's available balance out to its bank."""
    found = store.rows("SELECT account, currency FROM lines WHERE account <> '' GROUP BY account, currency")
    made = [_bank_payout(store, str(account), str(currency)) for account, currency in found]
    return [payout for payout in made if payout is not None]


def _bank_payout(store: Store, account: str, currency: str) -> Body | None:
    amount = available(store, currency, account=account)
    if amount <= 0:
        return None
    number, now = store.new_id("po"), store.now()
    already = set(store.meta(f"carried_all:{account}").split())
    carried = [
        str(line["id"])
        for line in store.all("balance_transaction", account=account)
        if line["currency"] == currency and line["type"] != "payout" and line["id"] not in already
    ]
    own = book(store, Line(type="payout", amount=-amount, currency=currency, source=number), account=account)
    store.set_meta(f"carried:{number}", " ".join([*carried, str(own["id"])]))
    store.set_meta(f"carried_all:{account}", " ".join([*already, *carried]))
    payout: Body = {
        "id": number,
        "object": "payout",
        "amount": amount,
        "arrival_date": now + _ARRIVAL_S,
        "automatic": True,
        "balance_transaction": own["id"],
        "created": now,
        "currency": currency,
        "description": "STRIPE PAYOUT",
        "destination": None,
        "failure_balance_transaction": None,
        "failure_code": None,
        "failure_message": None,
        "livemode": store.meta("is_live") == "1",
        "metadata": {},
        "method": "standard",
        "reconciliation_status": "completed",
        "source_type": "card",
        "statement_descriptor": None,
        "status": "in_transit",
        "type": "bank_account",
    }
    store.put("payout", payout, account=account)
    emit(store, "payout.created", payout, account=account)
    return payout


def end_bank_payout(store: Store, account: str, name: str, *, is_good: bool) -> Body:
    """The bank took the money, or sent it back; a failure may follow a success."""
    payout = store.get("payout", name, account=account)
    payout["status"] = "paid" if is_good else "failed"
    if not is_good:
        payout["failure_code"] = "account_closed"
        payout["failure_message"] = "The bank account has been closed"
        amount, currency = cast("int", payout["amount"]), str(payout["currency"])
        book(store, Line(type="payout_failure", amount=amount, currency=currency, source=name), account=account)
    store.put("payout", payout, account=account)
    emit(store, "payout.paid" if is_good else "payout.failed", payout, account=account)
    return payout
