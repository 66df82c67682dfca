"""What is lent is wanted, is there, and leaves something for others where there is little."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules import leasing
from portal.billing.rules.leasing import Ask, Reach

nano = st.integers(0, 10**6)


reaches = st.lists(st.builds(Reach, free=nano, idle=nano), min_size=1, max_size=3)


@given(accounts=reaches, wanted=nano, minimum=st.integers(1, 10**6), ahead=nano)
def test_a_grant_is_never_more_than_is_free(accounts, wanted, minimum, ahead):
    granted = leasing.grants(accounts, ask=Ask(wanted, minimum, ahead))

    assert all(0 <= extra <= account.free for extra, account in zip(granted, accounts, strict=True))


@given(accounts=reaches, wanted=st.integers(1, 10**6))
def test_what_is_wanted_is_within_reach_afterwards_where_the_accounts_together_have_it(accounts, wanted):
    granted = leasing.grants(accounts, ask=Ask(wanted, 1))

    together = sum(account.free + account.idle for account in accounts)
    assert sum(granted) + sum(account.idle for account in accounts) >= min(together, wanted)


@given(free=nano, minimum=st.integers(1, 10**5), ahead=nano)
def test_nothing_is_lent_ahead_where_fewer_than_twenty_holds_would_remain(free, minimum, ahead):
    granted = _one(free=free, ask=Ask(minimum, minimum, ahead))

    if free - minimum < 20 * minimum:
        assert granted in {0, minimum}


def test_ahead_is_at_most_a_twentieth_of_what_is_left():
    assert _one(free=1_010, ask=Ask(10, 10, 10**6)) == 60


def test_what_lies_idle_counts_as_granted():
    assert _one(free=100, idle=6, ask=Ask(10, 10)) == 4
    assert _one(free=3, idle=6, ask=Ask(10, 10)) == 0
    assert _one(free=0, idle=20, ask=Ask(10, 10)) == 0


def test_one_hold_may_combine_two_accounts_the_first_one_first():
    promotional, paid = Reach(free=60, idle=0), Reach(free=50, idle=0)

    assert leasing.grants([promotional, paid], ask=Ask(100, 100)) == [60, 40]
    assert leasing.grants([promotional, paid], ask=Ask(111, 111)) == [0, 0]


def _one(*, free: int, ask: Ask, idle: int = 0) -> int:
    (granted,) = leasing.grants([Reach(free=free, idle=idle)], ask=ask)
    return granted


def test_an_overdrawn_lease_is_said_not_hidden():
    assert leasing.returnable_nano(granted=10, used=3, unposted=2) == 5
    with pytest.raises(ValueError, match="overdrawn"):
        leasing.returnable_nano(granted=10, used=9, unposted=2)
