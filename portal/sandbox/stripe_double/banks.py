"""Connected accounts' banks: which account is named, what Stripe pays out to it, and what the bank does then."""

import hashlib
from typing import cast

from stripe import params

from portal.sandbox.stripe_double.api import Call, page, route
from portal.sandbox.stripe_double.balances import Line, available, book
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body
from portal.sandbox.stripe_double.store import Store

_ARRIVAL_S = 2 * 24 * 3600


def name_bank(store: Store, account: Body, number: str) -> Body:
    """The owner names a bank account by its number; the same number has the same fingerprint everywhere."""
    country = str(cast("Body", account["identity"])["country"]).upper()
    before = bank_of(store, account)
    bank: Body = {
        "id": str(before["id"]) if before else store.new_id("ba"),
        "object": "bank_account",
        "account": account["id"],
        "account_holder_name": account["display_name"],
        "account_holder_type": "individual",
        "account_type": None,
        "available_payout_methods": ["standard"],
        "bank_name": "STRIPE TEST BANK",
        "country": country,
        "currency": cast("Body", account["defaults"]).get("currency") or store.meta("currency", "usd"),
        "default_for_currency": True,
        "fingerprint": hashlib.sha256(f"bank {number}".encode()).hexdigest()[:16],
        "last4": number[-4:],
        "metadata": {},
        "routing_number": None,
        "status": "new",
    }
    store.put("bank_account", bank, account=str(account["id"]))
    kind = "account.external_account.updated" if before else "account.external_account.created"
    emit(store, kind, bank, account=str(account["id"]))
    return bank


def bank_of(store: Store, account: Body) -> Body | None:
    """Return the bank account that the owner named, or None."""
    found = store.all("bank_account", account=str(account["id"]))
    return found[0] if found else None


@route("GET", "/v1/accounts/{account}/external_accounts", params.AccountExternalAccountListParams)
def list_banks(call: Call) -> Body:
    """Answer with the bank accounts that the owner of an account named."""
    account = call.store.get("v2.core.account", call.names[0], param="account")
    return page(call, call.store.all("bank_account", account=str(account["id"])))


@route("GET", "/v1/payouts/{payout}", params.PayoutRetrieveParams)
def read_payout(call: Call) -> Body:
    """Answer with a connected account's payout to its bank."""
    return call.store.get("payout", call.names[0], account=call.account, param="payout")


@route("GET", "/v1/payouts", params.PayoutListParams)
def list_payouts(call: Call) -> Body:
    """Answer with a connected account's payouts, newest first."""
    return page(call, call.store.all("payout", account=call.account))


def run_bank_payouts(store: Store) -> list[Body]:
    """Do what Stripe does on its own: pay every connected account's available balance out to its bank."""
    found = store.rows("SELECT account, currency FROM lines WHERE account <> '' GROUP BY account, currency")
    made = [_bank_payout(store, str(account), str(currency)) for account, currency in found]
    return [payout for payout in made if payout is not None]


def _bank_payout(store: Store, account: str, currency: str) -> Body | None:
    amount = available(store, currency, account=account)
    if amount <= 0 or store.meta(f"bank_blocked:{account}"):
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
    bank = bank_of(store, {"id": account})
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
        "destination": bank["id"] if bank else None,
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
