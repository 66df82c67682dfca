"""What is lent is wanted, is there, and leaves something for others where there is little."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules import leasing
from portal.billing.rules.leasing import Ask

nano = st.integers(0, 10**6)


@given(free=nano, idle=nano, wanted=nano, minimum=st.integers(1, 10**6), ahead=nano)
def test_a_grant_is_never_more_than_is_free(free, idle, wanted, minimum, ahead):
    granted = leasing.grant_nano(free=free, idle=idle, wanted=wanted, ask=Ask(wanted, minimum, ahead))

    assert 0 <= granted <= free


@given(free=nano, wanted=st.integers(1, 10**6))
def test_what_is_wanted_is_granted_where_it_is_free(free, wanted):
    granted = leasing.grant_nano(free=free, idle=0, wanted=wanted, ask=Ask(wanted, 1))

    assert granted == min(free, wanted)


@given(free=nano, minimum=st.integers(1, 10**5), ahead=nano)
def test_nothing_is_lent_ahead_where_fewer_than_twenty_holds_would_remain(free, minimum, ahead):
    granted = leasing.grant_nano(free=free, idle=0, wanted=minimum, ask=Ask(minimum, minimum, ahead))

    if free - minimum < 20 * minimum:
        assert granted in {0, minimum}


def test_ahead_is_at_most_a_twentieth_of_what_is_left():
    assert leasing.grant_nano(free=1_010, idle=0, wanted=10, ask=Ask(10, 10, 10**6)) == 60


def test_what_lies_idle_counts_as_granted():
    assert leasing.grant_nano(free=100, idle=6, wanted=10, ask=Ask(10, 10)) == 4
    assert leasing.grant_nano(free=3, idle=6, wanted=10, ask=Ask(10, 10)) == 0
    assert leasing.grant_nano(free=0, idle=20, wanted=10, ask=Ask(10, 10)) == 0


def test_an_overdrawn_lease_is_said_not_hidden():
    assert leasing.returnable_nano(granted=10, used=3, unposted=2) == 5
    with pytest.raises(ValueError, match="overdrawn"):
        leasing.returnable_nano(granted=10, used=9, unposted=2)
