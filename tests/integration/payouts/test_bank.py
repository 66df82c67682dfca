"""After the transfer: the bank's answer is shown and never booked; a reversal is booked once."""

from datetime import timedelta

import pytest
from django.urls import reverse

from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import bank, sending
from portal.web.bank_words import bank_words
from tests.factories.payouts import balance_of, earn
from tests.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(shop, now):
    """A payout of 25.50 that has reached the provider's Stripe account."""
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    return sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)


def test_the_banks_answer_is_shown(shop, sent, now):
    books = balance_of("stripe_balance")
    payout = shop.double.control("bank/run")["payouts"][0]

    bank.note_bank_payout(account=sent.destination, bank_payout=payout["id"], now=now)
    sent.refresh_from_db()
    assert sent.bank_state == "in_transit"

    shop.double.control("bank/end", account=sent.destination, payout=payout["id"], is_good=True)
    bank.note_bank_payout(account=sent.destination, bank_payout=payout["id"], now=now)
    shop.double.control("bank/end", account=sent.destination, payout=payout["id"], is_good=False)
    bank.note_bank_payout(account=sent.destination, bank_payout=payout["id"], now=now)

    sent.refresh_from_db()
    assert (sent.bank_state, sent.state, balance_of("stripe_balance")) == ("failed", "transferred", books)


def test_a_reversal_gives_the_money_back_once(shop, sent, now):
    shop.double.control("reverse", transfer=sent.stripe_transfer)

    bank.note_transfer(transfer=sent.stripe_transfer, now=now)
    again = bank.note_transfer(transfer=sent.stripe_transfer, now=now)

    assert (again.state, again.reversed_minor) == ("reversed", 2550)
    assert balance_of("provider_available", sent.provider.public_id) == 25_500_000_000
    assert differences(now=now) == []


def test_partial_reversals_add_up(shop, sent, now):
    for amount in (1000, 550):
        shop.double.control("reverse", transfer=sent.stripe_transfer, amount=amount)
        bank.note_transfer(transfer=sent.stripe_transfer, now=now)

    sent.refresh_from_db()
    assert (sent.state, sent.reversed_minor) == ("transferred", 1550)
    assert balance_of("provider_available", sent.provider.public_id) == 15_500_000_000
    assert differences(now=now) == []


def test_one_bank_payout_may_carry_several_of_our_payouts(shop, sent, now):
    earn(sent.provider, minor=1000, now=now, key="second")
    second = sending.send(payout_id=shop.approved(sent.provider, now=now + timedelta(hours=1)).pk, now=now)
    carried = shop.double.control("bank/run")["payouts"][0]
    shop.double.control("bank/end", account=sent.destination, payout=carried["id"], is_good=True)

    assert bank.note_bank_payout(account=sent.destination, bank_payout=carried["id"], now=now) == 2

    for payout in (sent, second):
        payout.refresh_from_db()
        assert payout.bank_state == "paid"


def test_received_and_when_not_only_sent(shop, sent, now, world: World):
    payout = shop.double.control("bank/run")["payouts"][0]
    bank.note_bank_payout(account=sent.destination, bank_payout=payout["id"], now=now)
    sent.refresh_from_db()
    assert bank_words(sent).startswith("On its way to the bank, expected 20")

    shop.double.control("bank/end", account=sent.destination, payout=payout["id"], is_good=True)
    bank.note_bank_payout(account=sent.destination, bank_payout=payout["id"], now=now)

    sent.refresh_from_db()
    assert bank_words(sent) == f"Received by the bank {sent.bank_arrives_at:%Y-%m-%d}."
    page = world.client(world.operator).get(reverse("operators:payout", args=[sent.public_id])).content.decode()
    assert payout["id"] in page


def test_what_a_bank_refused_is_followed_by_the_next_try(shop, sent, now):
    first = shop.double.control("bank/run")["payouts"][0]
    shop.double.control("bank/end", account=sent.destination, payout=first["id"], is_good=False)
    bank.note_bank_payout(account=sent.destination, bank_payout=first["id"], now=now)
    sent.refresh_from_db()
    assert "account_closed" in bank_words(sent)

    again = shop.double.control("bank/run")["payouts"][0]
    shop.double.control("bank/end", account=sent.destination, payout=again["id"], is_good=True)
    bank.note_bank_payout(account=sent.destination, bank_payout=again["id"], now=now)

    sent.refresh_from_db()
    assert (sent.bank_state, sent.bank_failure) == ("paid", "")
    assert list(sent.bank_legs.order_by("pk").values_list("bank_payout", "status")) == [
        (first["id"], "failed"),
        (again["id"], "paid"),
    ]


def test_late_news_of_an_earlier_try_does_not_hide_the_later_one(shop, sent, now):
    first = shop.double.control("bank/run")["payouts"][0]
    bank.note_bank_payout(account=sent.destination, bank_payout=first["id"], now=now)
    shop.double.control("bank/end", account=sent.destination, payout=first["id"], is_good=False)
    bank.note_bank_payout(account=sent.destination, bank_payout=first["id"], now=now)
    shop.double.control("clock/advance", seconds=60)
    again = shop.double.control("bank/run")["payouts"][0]
    bank.note_bank_payout(account=sent.destination, bank_payout=again["id"], now=now)

    bank.note_bank_payout(account=sent.destination, bank_payout=first["id"], now=now)

    sent.refresh_from_db()
    assert sent.bank_state == "in_transit"
