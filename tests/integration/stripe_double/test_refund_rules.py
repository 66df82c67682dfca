"""Refunds: the money leaves once, comes back once where the bank refuses, and waits where there is none."""

import pytest

from portal.integrations.stripe_errors import InsufficientFunds
from portal.integrations.stripe_types import Refund, RefundOrder


def give_back(till, charge: str, amount: int) -> Refund:
    """Give part of a charge back."""
    order = RefundOrder(f"refund_{till.key()}", "org_1", charge, amount, "usd")
    return till.door.create_refund(key=till.key(), order=order)


def test_a_refund_leaves_the_fee_where_it_is(till):
    till.double.control("fund", amount=1000)
    paid = till.pay()

    give_back(till, paid.charge, 2500)

    assert till.balance() == 1000 - 102


def test_a_refund_waits_while_there_is_no_money(till):
    paid = till.pay()
    waiting = give_back(till, paid.charge, 2500)
    assert (waiting.status, till.balance()) == ("pending", 2398)

    till.double.control("fund", amount=102)

    assert (till.door.refund(refund=waiting.id).status, till.balance()) == ("succeeded", 0)


def test_stripe_may_refuse_while_there_is_no_money(till):
    till.double.control("platform", refund_shortage="refuse")
    paid = till.pay()

    with pytest.raises(InsufficientFunds):
        give_back(till, paid.charge, 2500)

    assert till.door.refunds_of(charge=paid.charge) == []


@pytest.mark.parametrize("card", ["4242424242424242", "4000000000007726"])
def test_a_failed_refund_gives_the_money_back_to_us(till, card):
    till.double.control("fund", amount=1000)
    paid = till.pay(card)
    made = give_back(till, paid.charge, 2000)
    till.told()

    till.double.control("refund/end", refund=made.id, is_good=False)

    failed = till.door.refund(refund=made.id)
    assert (failed.status, failed.failure) == ("failed", "expired_or_canceled_card")
    assert (till.balance(), till.told()) == (1000 + 2398, ["refund.failed", "charge.refund.updated"])
    assert give_back(till, paid.charge, 2500).amount_minor == 2500


def test_a_refund_made_at_stripe_has_no_reference(till):
    paid = till.pay()

    till.double.control("refund", charge=paid.charge, amount=300)

    (seen,) = till.door.refunds_of(charge=paid.charge)
    assert (seen.reference, seen.amount_minor, seen.status) == ("", 300, "succeeded")
    assert till.told()[-2:] == ["refund.created", "charge.refunded"]


def test_a_refund_that_takes_its_time_ends_well(till):
    till.double.control("fund", amount=1000)
    paid = till.pay("4000000000007726")
    made = give_back(till, paid.charge, 500)
    assert made.status == "pending"

    till.double.control("refund/end", refund=made.id)

    assert (till.door.refund(refund=made.id).status, till.balance()) == ("succeeded", 1000 + 2398 - 500)


@pytest.mark.parametrize(("currency", "amount"), [("jpy", 500), ("kwd", 5000)])
def test_a_refund_is_in_the_currencys_own_smallest_unit(till, currency, amount):
    till.double.control("fund", amount=10_000, currency=currency)
    opened = till.open(amount=amount, currency=currency)
    till.press(opened.url, "pay")
    paid = till.door.checkout(session=opened.id)
    order = RefundOrder("refund_1", "org_1", paid.charge, amount, currency)

    made = till.door.create_refund(key="r", order=order)

    assert (made.amount_minor, made.currency) == (amount, currency)
    assert till.balance(currency=currency) == 10_000 - paid.fee_minor
