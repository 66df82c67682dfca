"""After the transfer: the bank's answer is shown and never booked; a reversal is booked once."""

import pytest

from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import bank, sending
from tests.factories.payouts import balance_of

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
