"""The provider's hosted pages: onboarding, and the small dashboard of an account."""

from html import escape
from typing import cast

from portal.sandbox.stripe_double import accounts, banks
from portal.sandbox.stripe_double.balances import available
from portal.sandbox.stripe_double.charges import shown
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.layout import Button, Page, facts, form, line, page, redirect, table
from portal.sandbox.stripe_double.store import Store

_SETUP_MOVES = ("complete", "review", "leave", "restrict")


def show_setup(store: Store, token: str) -> Page:
    """Show the onboarding form; a used or late link goes to the refresh URL."""
    link = _link(store, token, "_link")
    if link["used"] or cast("int", link["expires"]) <= store.now():
        return redirect(str(link["refresh_url"]))
    link["used"] = True
    store.put("_link", link)
    buttons = [
        Button("complete", "Give all details", is_main=True),
        Button("review", "Give all details, Stripe reviews them"),
        Button("leave", "Leave with fields due"),
        Button("restrict", "Get restricted"),
    ]
    lead = f"<p>Account {escape(str(link['account']))} wants to be paid.</p>"
    return page(
        "Onboarding", lead + form(buttons, fields=line("bank", "Bank account number (left empty: one of your own)"))
    )


def post_setup(store: Store, token: str, given: Body) -> Page:
    """Do what the provider chose."""
    link = _link(store, token, "_link")
    action = str(given.get("action", "complete"))
    if link.get("is_posted"):
        return redirect(str(link["refresh_url"]))
    if action not in _SETUP_MOVES:
        raise invalid(f"action must be one of {', '.join(_SETUP_MOVES)}", param="action")
    link |= {"used": True, "is_posted": True}
    store.put("_link", link)
    if action != "leave":
        account = store.get("v2.core.account", str(link["account"]))
        accounts.change(store, account, accounts.MOVES[action], bank=str(given.get("bank") or "").strip())
    return redirect(str(link.get("return_url") or link["refresh_url"]))


def show_express(store: Store, token: str) -> Page:
    """Show the account's balance, what came in, and its bank."""
    account = store.get("v2.core.account", str(_link(store, token, "_login")["account"]))
    owner = str(account["id"])
    currency = str(cast("Body", account["defaults"]).get("currency") or store.meta("currency", "usd"))
    bank = banks.bank_of(store, account)
    came = [one for one in store.all("transfer") if one["destination"] == owner]
    pairs = [
        ("Balance", shown(available(store, currency, account=owner), currency)),
        ("Bank account", f"ending in {bank['last4']}" if bank else "none"),
    ]
    content = facts(pairs) + "<h2>Transfers</h2>" + _money(came, "Nothing has come in yet.", "transfer_group")
    content += "<h2>Paid to the bank</h2>" + _money(store.all("payout", account=owner), "Nothing yet.", "status")
    buttons = [Button("bank", "Change the bank account", is_main=True)]
    if cast("Body", account["requirements"])["entries"]:
        buttons.append(Button("complete", "Give the missing details"))
    content += "<h2>Settings</h2>" + form(buttons, fields=line("bank", "Bank account number"))
    return page("Your account", content)


def _money(found: list[Body], empty: str, about: str) -> str:
    if not found:
        return f"<p>{empty}</p>"
    return table([(str(one["id"]), str(one[about] or ""), _amount(one)) for one in found])


def _amount(body: Body) -> str:
    return shown(cast("int", body["amount"]), str(body["currency"]))


def post_express(store: Store, token: str, given: Body) -> Page:
    """Do what the provider chose."""
    account = store.get("v2.core.account", str(_link(store, token, "_login")["account"]))
    action, bank = str(given.get("action", "")), str(given.get("bank") or "").strip()
    if action == "complete":
        accounts.change(store, account, accounts.activate, bank=bank)
    elif action == "bank" and bank:
        accounts.change_bank(store, account, bank=bank)
    else:
        raise invalid("action must be complete, or bank with a bank account number", param="action")
    return redirect(f"/express/{token}")


def _link(store: Store, token: str, kind: str) -> Body:
    link = store.find(token)
    if link is None or link.get("object") != kind:
        raise Refusal(404, "", "No such link")
    return link
