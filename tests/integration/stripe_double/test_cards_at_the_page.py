"""What each test card does at the hosted page, and what is saved of it."""

import httpx
import pytest

from portal.integrations.stripe_errors import CardDeclined
from tests.integration.stripe_double.conftest import ALWAYS

CONFIRMED = "4000000000003220"
ASKED = "4000000000003055"
EVERY_TIME = "4000002760003184"
ONCE = "4000002500003155"


def test_a_paid_session_names_its_card_charge_and_fee(till):
    paid = till.pay()

    assert (paid.status, paid.payment_status, paid.amount_minor) == ("complete", "paid", 2500)
    assert (paid.fee_minor, paid.fee_currency) == (102, "usd")
    assert (paid.card.last4, paid.is_three_d_secure) == ("4242", False)
    assert paid.charge.startswith("ch_")
    assert till.door.saved_cards(customer=paid.customer) == []


def test_a_card_is_saved_where_the_order_says_so(till):
    paid = till.pay("5555555555554444", saves_card=True)

    (saved,) = till.door.saved_cards(customer=paid.customer)
    assert (saved, saved.brand) == (paid.card, "mastercard")
    assert till.charge(paid.customer, saved.id).status == "succeeded"


@pytest.mark.parametrize(
    ("number", "code", "decline"),
    [
        ("4000000000000002", "card_declined", "generic_decline"),
        ("4000000000009995", "card_declined", "insufficient_funds"),
        ("4000000000000069", "expired_card", ""),
        ("4100000000000019", "card_declined", "fraudulent"),
    ],
)
def test_a_refused_card_leaves_the_page_open(till, number, code, decline):
    opened = till.open()

    page = till.press(opened.url, "pay", card=number)

    assert (page.status_code, "Your card was declined." in page.text) == (402, True)
    assert till.door.checkout(session=opened.id).status == "open"
    (tried,) = till.door.payments_of(customer=opened.customer, since=ALWAYS)
    assert (tried.status, tried.failure_code, tried.decline_code) == ("requires_payment_method", code, decline)
    assert (tried.reference, till.balance()) == (opened.reference, 0)


def test_a_second_try_pays_the_same_payment(till):
    opened = till.open()
    till.press(opened.url, "decline")
    till.press(opened.url, "pay")

    (paid,) = till.door.payments_of(customer=opened.customer, since=ALWAYS)
    assert (paid.id, paid.status) == (till.door.checkout(session=opened.id).payment_intent, "succeeded")


def test_a_number_that_is_no_test_card_is_refused(till):
    opened = till.open()

    assert till.press(opened.url, "pay", card="4111111111111111").status_code == 400
    assert till.door.checkout(session=opened.id).status == "open"


def test_a_confirmed_card_pays_with_liability_shifted(till):
    opened = till.open()
    challenge = till.press(opened.url, "pay", card=CONFIRMED).headers["location"]
    page = httpx.get(till.double.url + challenge, trust_env=False)
    assert "did you start this payment" in page.text
    assert till.door.checkout(session=opened.id).status == "open"

    till.press(till.double.url + challenge, "confirm")

    paid = till.door.checkout(session=opened.id)
    assert (paid.payment_status, paid.is_three_d_secure) == ("paid", True)


def test_an_unconfirmed_card_pays_nothing(till):
    opened = till.open()
    challenge = till.double.url + till.press(opened.url, "pay", card=CONFIRMED).headers["location"]

    assert "unable to authenticate" in till.press(challenge, "fail").text

    assert till.door.checkout(session=opened.id).status == "open"
    assert till.press(challenge, "confirm").status_code == 404


@pytest.mark.parametrize(("asks", "target"), [(True, "/c/3ds/"), (False, "http://shop.test/done")])
def test_a_card_that_can_confirm_does_so_when_asked(till, asks, target):
    opened = till.open(asks_3ds=asks)

    assert till.press(opened.url, "pay", card=ASKED).headers["location"].startswith(target)


def test_a_card_that_cannot_confirm_pays_unconfirmed(till):
    assert till.pay(asks_3ds=True).is_three_d_secure is False


def confirmed(till, number: str):
    """Pay and save by a card that has to be confirmed."""
    opened = till.open(saves_card=True)
    challenge = till.press(opened.url, "pay", card=number).headers["location"]
    till.press(till.double.url + challenge, "confirm")
    return till.door.checkout(session=opened.id)


def test_a_card_that_was_confirmed_once_works_without_its_owner(till):
    paid = confirmed(till, ONCE)

    assert till.charge(paid.customer, paid.card.id).status == "succeeded"


def test_a_card_that_asks_every_time_needs_its_owner(till):
    paid = confirmed(till, EVERY_TIME)

    with pytest.raises(CardDeclined) as refused:
        till.charge(paid.customer, paid.card.id)

    assert refused.value.needs_owner
    assert till.door.payment(payment=refused.value.payment).status == "requires_payment_method"


def test_a_bank_may_change_its_mind_about_a_saved_card(till):
    paid = till.pay(saves_card=True)
    till.double.control("card", payment_method=paid.card.id, behaves_like="4000000000009995")

    with pytest.raises(CardDeclined) as refused:
        till.charge(paid.customer, paid.card.id)

    assert refused.value.decline_code == "insufficient_funds"
    assert till.door.saved_cards(customer=paid.customer) == [paid.card]


@pytest.mark.parametrize(("behavior", "total"), [(True, 3000), (False, 2500)])
def test_tax_comes_on_top_and_is_on_the_invoice(till, behavior, total):
    opened = till.open(collects_tax=behavior)
    till.press(opened.url, "pay", country="DE", tax_id="DE123456789")

    paid = till.door.checkout(session=opened.id)

    assert (paid.amount_minor, paid.tax_minor) == (total, total - 2500)
    invoice = httpx.get(paid.invoice_url, trust_env=False).text
    assert f"{total / 100:.2f} USD" in invoice
    assert till.double.store.find(paid.invoice)["total"] == total


def test_the_tax_rate_can_be_set(till):
    till.double.control("platform", tax_bps=1900)
    opened = till.open(collects_tax=True)
    till.press(opened.url, "pay")

    assert till.door.checkout(session=opened.id).tax_minor == 475


def test_a_bank_debit_pays_later(till):
    opened = till.open()
    till.press(opened.url, "bank")
    waiting = till.door.checkout(session=opened.id)
    assert (waiting.status, waiting.payment_status, waiting.charge) == ("complete", "unpaid", "")

    till.double.control("settle", session=opened.id, is_good=True)

    paid = till.door.checkout(session=opened.id)
    assert (paid.payment_status, paid.card, paid.fee_minor) == ("paid", None, 102)
    assert till.told()[-3:] == ["payment_intent.succeeded", "invoice.paid", "checkout.session.async_payment_succeeded"]


def test_a_bank_debit_may_bounce(till):
    opened = till.open()
    till.press(opened.url, "bank")

    till.double.control("settle", session=opened.id, is_good=False)

    seen = till.door.checkout(session=opened.id)
    assert (seen.payment_status, seen.failure, till.balance()) == ("unpaid", "debit_not_authorized", 0)
