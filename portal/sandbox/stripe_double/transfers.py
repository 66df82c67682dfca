"""Transfers to connected accounts and their reversals."""

from typing import cast

from stripe import params

from portal.sandbox.stripe_double import accounts, currencies
from portal.sandbox.stripe_double.api import Call, created_within, matching, page, route
from portal.sandbox.stripe_double.balances import Line, available, book
from portal.sandbox.stripe_double.charges import charge_body
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.store import Store


@route("POST", "/v1/transfers", params.TransferCreateParams)
def create_transfer(call: Call) -> Body:
    """Move available money of the platform to an account that may receive it."""
    amount, currency = call.number("amount"), call.text("currency")
    account = _destination(call)
    currencies.check_transfer(amount, currency)
    _check_currency(account, currency)
    if available(call.store, currency) < amount:
        raise currencies.short()
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


def _check_currency(account: Body, currency: str) -> None:
    """Refuse what the account's bank does not take; Stripe would convert, which here is always a mistake."""
    taken = cast("Body", account["defaults"]).get("currency")
    if taken and taken != currency:
        raise Refusal(
            400,
            "transfers_not_allowed",
            f"This stand-in does not convert: the account takes {taken}, not {currency}.",
            param="currency",
        )


def _destination(call: Call) -> Body:
    name = call.text("destination")
    account = call.store.find(name)
    if account is None or account.get("object") != "v2.core.account":
        raise Refusal(400, "resource_missing", f"No such destination: '{name}'", param="destination")
    if account["closed"]:
        raise Refusal(400, "account_invalid", "The destination account is closed.", param="destination")
    status = accounts.capabilities(account).get("stripe_transfers")
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
    found = created_within(call, call.store.all("transfer"))
    return page(call, matching(call, found, "transfer_group", "destination"))


@route("GET", "/v1/transfers/{transfer}", params.TransferRetrieveParams)
def read_transfer(call: Call) -> Body:
    """Answer with a transfer."""
    return call.store.get("transfer", call.names[0], param="transfer")


@route("POST", "/v1/transfers/{id}/reversals", params.TransferCreateReversalParams)
def create_reversal(call: Call) -> Body:
    """Take a transfer back, as far as the account still has the money."""
    transfer = call.store.get("transfer", call.names[0])
    reversal = reverse(call.store, transfer, amount=call.number("amount", default=0), request=call.request_id)
    return call.store.put("transfer_reversal", reversal | {"metadata": call.mapping("metadata")})


@route("GET", "/v1/transfers/{id}/reversals", params.TransferListReversalsParams)
def list_reversals(call: Call) -> Body:
    """Answer with a transfer's reversals, newest first."""
    transfer = call.store.get("transfer", call.names[0])
    return page(call, [one for one in call.store.all("transfer_reversal") if one["transfer"] == transfer["id"]])


def reverse(store: Store, transfer: Body, *, amount: int, request: str = "") -> Body:
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
    emit(store, "transfer.reversed", transfer, request=request)
    return store.put("transfer_reversal", reversal)
