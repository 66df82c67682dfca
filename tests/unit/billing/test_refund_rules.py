"""What can be given back, the tax in it, and how a refund may move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules import refunds
from portal.billing.rules.refunds import REFUND_MOVES, Purchase, RefundMoveRefused, RefundStatusUnknown

CENT = 10_000_000


def bought(*, paid=11_900, tax=1900, refunded=0, refunded_tax=0) -> Purchase:
    return Purchase(paid=paid, tax=tax, refunded=refunded, refunded_tax=refunded_tax)


@pytest.mark.parametrize(
    ("purchase", "free", "minor"),
    [
        (bought(), 100_00 * CENT, 119_00),
        (bought(), 50_00 * CENT, 59_50),
        (bought(), 50_00 * CENT + CENT - 1, 59_50),
        (bought(refunded=59_50, refunded_tax=9_50), 100_00 * CENT, 59_50),
        (bought(refunded=119_00, refunded_tax=19_00), 100_00 * CENT, 0),
        (bought(), 0, 0),
        (bought(), -5, 0),
        (bought(paid=5000, tax=0), 30_00 * CENT, 30_00),
        (bought(paid=5000, tax=0), 99_00 * CENT, 50_00),
    ],
)
def test_never_more_than_was_paid_or_is_unspent(purchase, free, minor):
    assert refunds.refundable(purchase, free_nano=free, currency="usd") == minor


@pytest.mark.parametrize(("currency", "free", "minor"), [("jpy", 500 * 10**9 + 1, 500), ("kwd", 5 * 10**9, 4800)])
def test_in_the_currencys_own_coins(currency, free, minor):
    assert refunds.refundable(bought(paid=4800, tax=0), free_nano=free, currency=currency) == minor


@given(paid=st.integers(1, 10**7), share=st.integers(0, 50), parts=st.lists(st.integers(1, 10**6), max_size=12))
def test_the_tax_of_all_parts_is_the_tax_of_the_whole(paid, share, parts):
    tax = paid * share // 100
    refunded = refunded_tax = 0
    for part in [*parts, paid]:
        amount = min(part, paid - refunded)
        if amount:
            purchase = Purchase(paid=paid, tax=tax, refunded=refunded, refunded_tax=refunded_tax)
            refunded_tax += refunds.tax_part(purchase, amount=amount)
            refunded += amount

    assert (refunded, refunded_tax) == (paid, tax)


@given(paid=st.integers(1, 10**6), share=st.integers(0, 50), free=st.integers(0, 10**6), refunded=st.integers(0, 10**6))
def test_what_is_given_back_is_covered_by_what_is_free(paid, share, free, refunded):
    tax, refunded = paid * share // 100, min(refunded, paid)
    purchase = Purchase(paid=paid, tax=tax, refunded=refunded, refunded_tax=tax * refunded // paid)

    most = refunds.refundable(purchase, free_nano=free * CENT, currency="usd")

    assert 0 <= most <= paid - refunded
    assert most - refunds.tax_part(purchase, amount=most) <= free


def test_every_move_leads_to_a_known_state():
    assert {after for moves in REFUND_MOVES.values() for after in moves} <= set(REFUND_MOVES)
    assert set(refunds.MEANINGS) == set(REFUND_MOVES)


def test_what_came_to_nothing_stays_so():
    for state in refunds.CAME_TO_NOTHING:
        assert REFUND_MOVES[state] == frozenset()
    with pytest.raises(RefundMoveRefused):
        refunds.require_move(before="succeeded", after="pending")


def test_stripes_words_have_one_meaning_each():
    assert [refunds.state_of(word) for word in ("pending", "requires_action", "succeeded", "failed", "canceled")] == [
        "pending",
        "pending",
        "succeeded",
        "failed",
        "failed",
    ]
    with pytest.raises(RefundStatusUnknown):
        refunds.state_of("brand_new")
