"""The hosted pages, Checkout and onboarding: plain forms that a script can post (`action=…` to the page itself)."""

from dataclasses import dataclass
from html import escape
from typing import cast

from portal.core import money
from portal.sandbox.stripe_double import accounts, buying
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.store import Store

NOTE = "Simulated, no money moves."
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem;"
    "color:#1c1e21;background:#f5f6f8}"
    "main{background:#fff;border:1px solid #d9dce1;border-radius:10px;padding:1.5rem}"
    "button{font:inherit;display:block;width:100%;margin:.5rem 0;padding:.6rem;border:1px solid #b9bfc8;"
    "border-radius:8px;background:#fff;cursor:pointer}"
    "button.main{background:#17457a;color:#fff}.note{background:#fff3cd;border-radius:8px;padding:.5rem .75rem}"
)


@dataclass(frozen=True, slots=True)
class Page:
    """An HTML answer, or a redirect where `location` is set."""

    status: int
    html: str = ""
    location: str = ""


def checkout(store: Store, name: str) -> Page:
    """Show what is to be paid."""
    session = buying.require_open(store, name)
    digits = money.exponent(str(session["currency"]))
    whole, rest = divmod(cast("int", session["amount_total"]), 10**digits)
    amount = f"{whole}.{rest:0{digits}d}" if digits else str(whole)
    buttons = [
        ("pay", "Pay with a card", True),
        ("bank", "Pay by bank debit (settles later)", False),
        ("decline", "Use a card that is declined", False),
        ("leave", "Leave without paying", False),
    ]
    return _page(
        "Checkout", f"<p>To pay: <strong>{amount} {escape(str(session['currency']).upper())}</strong></p>", buttons
    )


def post_checkout(store: Store, name: str, form: Body) -> Page:
    """Do what the buyer chose."""
    session = buying.require_open(store, name)
    action = str(form.get("action", "pay"))
    if action == "leave":
        return Page(303, location=str(session["cancel_url"] or "/"))
    if action == "decline":
        buying.decline(store, session)
        return _page("Checkout", "<p>Your card was declined.</p>", [("pay", "Pay with another card", True)], status=402)
    moves = {"pay": buying.pay, "bank": buying.pay_later}
    if action not in moves:
        raise invalid("action must be pay, bank, decline or leave", param="action")
    moves[action](store, session)
    target = str(session["success_url"] or "/").replace("{CHECKOUT_SESSION_ID}", name)
    return Page(303, location=target)


def setup(store: Store, token: str) -> Page:
    """Show the onboarding form; a used or late link goes to the refresh URL."""
    link = _link(store, token)
    if link["used"] or cast("int", link["expires"]) <= store.now():
        return Page(303, location=str(link["refresh_url"]))
    link["used"] = True
    store.put("_link", link)
    buttons = [
        ("complete", "Give all details", True),
        ("review", "Give all details, Stripe reviews them", False),
        ("leave", "Leave with fields due", False),
        ("restrict", "Get restricted", False),
    ]
    return _page("Onboarding", f"<p>Account {escape(str(link['account']))} wants to be paid.</p>", buttons)


def post_setup(store: Store, token: str, form: Body) -> Page:
    """Do what the provider chose."""
    link = _link(store, token)
    action = str(form.get("action", "complete"))
    if link.get("is_posted"):
        return Page(303, location=str(link["refresh_url"]))
    if action not in {"complete", "review", "leave", "restrict"}:
        raise invalid("action must be complete, review, leave or restrict", param="action")
    link |= {"used": True, "is_posted": True}
    store.put("_link", link)
    if action != "leave":
        account = store.get("v2.core.account", str(link["account"]))
        accounts.change(store, account, accounts.MOVES[action])
    return Page(303, location=str(link.get("return_url") or link["refresh_url"]))


def _link(store: Store, token: str) -> Body:
    link = store.find(token)
    if link is None or link.get("object") != "_link":
        raise Refusal(404, "", "No such link")
    return link


def _page(title: str, lead: str, buttons: list[tuple[str, str, bool]], *, status: int = 200) -> Page:
    forms = "".join(
        f'<button name="action" value="{value}"{" class=main" if is_main else ""}>{escape(label)}</button>'
        for value, label, is_main in buttons
    )
    html = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} (simulated)</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main><h1>{title}</h1>'
        f'<p class="note">{NOTE}</p>{lead}<form method="post">{forms}</form></main></body></html>'
    )
    return Page(status, html=html)
