"""The buyer's hosted pages: Checkout, the bank's 3-D Secure challenge, and the invoice."""

from html import escape
from typing import cast

from portal.sandbox.stripe_double import buying, cards
from portal.sandbox.stripe_double.cards import CARDS, Card
from portal.sandbox.stripe_double.charges import shown
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.layout import Button, Page, choice, facts, form, line, page, redirect
from portal.sandbox.stripe_double.store import Store

_DECLINED = 402
_COUNTRIES = [("US", "United States"), ("DE", "Germany"), ("FR", "France"), ("JP", "Japan")]


def show(store: Store, name: str) -> Page:
    """Show what is to be paid."""
    return _checkout(buying.require_open(store, name))


def _checkout(session: Body, *, problem: str = "") -> Page:
    amount = shown(cast("int", session["amount_subtotal"]), str(session["currency"]))
    lead = f"<p>To pay: <strong>{escape(amount)}</strong>{' plus tax' if _is_taxed(session) else ''}</p>"
    if problem:
        lead = f'<p class="bad" role="alert">{escape(problem)}</p>{lead}'
    cards_known = [(card.number, f"{card.title} ({_grouped(card.number)})") for card in CARDS.values()]
    fields = choice("card", "Test card", cards_known)
    if _is_taxed(session) or cast("Body", session["tax_id_collection"])["enabled"]:
        fields += choice("country", "Country", _COUNTRIES) + line("tax_id", "Tax id (a business only)")
    buttons = [
        Button("pay", "Pay with this card", is_main=True),
        Button("bank", "Pay by bank debit (settles later)"),
        Button("decline", "Use a card that is declined"),
        Button("leave", "Leave without paying"),
    ]
    return page("Checkout", lead + form(buttons, fields=fields), status=_DECLINED if problem else 200)


def _is_taxed(session: Body) -> bool:
    return cast("Body", session["automatic_tax"])["enabled"] is True


def _grouped(number: str) -> str:
    return " ".join(number[place : place + 4] for place in range(0, len(number), 4))


def post(store: Store, name: str, given: Body) -> Page:
    """Do what the buyer chose."""
    session = buying.require_open(store, name)
    action = str(given.get("action", "pay"))
    if action not in {"pay", "bank", "decline", "leave"}:
        raise invalid("action must be pay, bank, decline or leave", param="action")
    if action == "leave":
        return redirect(str(session["cancel_url"] or "/"))
    if action == "decline":
        buying.decline(store, session)
        return _checkout(session, problem="Your card was declined.")
    buying.add_tax(
        store, session, country=str(given.get("country") or "US"), tax_id=str(given.get("tax_id") or "").strip()
    )
    if action == "bank":
        buying.pay_later(store, session)
        return _thanks(session)
    return _pay(store, session, cards.by_number(str(given.get("card") or _usual(store))))


def _usual(store: Store) -> str:
    return store.meta("checkout_card", cards.USUAL)


def _pay(store: Store, session: Body, card: Card) -> Page:
    if buying.must_confirm(store, session, card):
        store.set_meta(f"challenge:{session['id']}", card.number)
        return redirect(f"/c/3ds/{session['id']}")
    return _settled(session, is_paid=buying.pay(store, session, card=card))


def _settled(session: Body, *, is_paid: bool) -> Page:
    return _thanks(session) if is_paid else _checkout(session, problem="Your card was declined.")


def _thanks(session: Body) -> Page:
    target = str(session["success_url"] or "/")
    return redirect(target.replace("{CHECKOUT_SESSION_ID}", str(session["id"])))


def show_challenge(store: Store, name: str) -> Page:
    """Show the bank's question."""
    session, card = _challenge(store, name)
    amount = shown(cast("int", session["amount_total"]), str(session["currency"]))
    lead = f"<p>Your bank asks: did you start this payment of <strong>{escape(amount)}</strong> with the card ending in"
    buttons = [Button("confirm", "Yes, complete it", is_main=True), Button("fail", "No, fail it")]
    return page("3-D Secure", f"{lead} {card.last4}?</p>" + form(buttons))


def post_challenge(store: Store, name: str, given: Body) -> Page:
    """The owner confirmed, or did not."""
    session, card = _challenge(store, name)
    action = str(given.get("action", "confirm"))
    if action not in {"confirm", "fail"}:
        raise invalid("action must be confirm or fail", param="action")
    store.set_meta(f"challenge:{name}", "")
    if action == "fail":
        buying.fail_confirmation(store, session, card=card)
        return _checkout(session, problem="We are unable to authenticate your payment method.")
    return _settled(session, is_paid=buying.pay(store, session, card=card, is_confirmed=True))


def _challenge(store: Store, name: str) -> tuple[Body, Card]:
    session = buying.require_open(store, name)
    number = store.meta(f"challenge:{name}")
    if not number:
        raise Refusal(404, "", "Nothing waits to be confirmed here.")
    return session, cards.by_number(number)


def show_invoice(store: Store, name: str) -> Page:
    """Show a paid invoice."""
    invoice = store.get("invoice", name)
    currency = str(invoice["currency"])
    net, whole = cast("int", invoice["subtotal"]), cast("int", invoice["total"])
    pairs = [
        ("Number", str(invoice["number"])),
        ("For", str(invoice["description"])),
        ("Subtotal", shown(net, currency)),
        ("Tax", shown(whole - net, currency)),
        ("Paid", shown(whole, currency)),
    ]
    return page("Invoice", facts(pairs))


def show_receipt(store: Store, name: str) -> Page:
    """Show what was charged, and what was given back of it."""
    charge = store.get("charge", name)
    currency = str(charge["currency"])
    pairs = [
        ("Charge", str(charge["id"])),
        ("Paid", shown(cast("int", charge["amount"]), currency)),
        ("Given back", shown(cast("int", charge["amount_refunded"]), currency)),
    ]
    return page("Receipt", facts(pairs))
