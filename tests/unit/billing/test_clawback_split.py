"""A claw-back takes what has not matured first, and every unit comes from one place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules.clawback import Sources, shares, split

AMOUNTS = st.integers(min_value=0, max_value=10**15)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (1, (1, 0, 0, 0, 0)),
        (31, (30, 1, 0, 0, 0)),
        (130, (30, 100, 0, 0, 0)),
        (131, (30, 100, 1, 0, 0)),
        (190, (30, 100, 50, 10, 0)),
        (430, (30, 100, 50, 200, 50)),
    ],
)
def test_the_order(amount, expected):
    found = split(amount, Sources(held_nano=30, pending_nano=100, reserve_nano=50, available_nano=200))

    parts = (found.held_nano, found.pending_nano, found.reserve_nano, found.available_nano, found.debt_nano)
    assert parts == expected


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_nothing_is_lost_and_nothing_is_overdrawn(amount, held, pending, reserve, available):
    found = split(amount, Sources(held, pending, reserve, available))

    assert found.total_nano == amount
    assert found.held_nano <= held
    assert found.pending_nano <= pending
    assert found.reserve_nano <= reserve
    assert found.available_nano <= available
    assert found.debt_nano == 0 or (found.pending_nano, found.available_nano) == (pending, available)


def test_a_negative_balance_gives_nothing():
    assert split(5, Sources(0, 0, 0, -10)).debt_nano == 5


def test_rows_give_in_their_order_and_never_more_than_they_have():
    assert shares(25, [10, 10, 10]) == [10, 10, 5]
    assert shares(0, [10]) == [0]
    with pytest.raises(ValueError, match="5 nano short"):
        shares(15, [10])
