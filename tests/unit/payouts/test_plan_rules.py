"""When a payout is due, how small it may be, and what Stripe takes for it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.payouts.rules.fees import FeeTerms, fee_minor, parts
from portal.payouts.rules.minimums import floor_minor, smallest_minor
from portal.payouts.rules.schedule import Rhythm, is_due, month_start, rhythm, wish_minor

MONTHLY = Rhythm("monthly", 5, 10_000)
THRESHOLD = Rhythm("threshold", 5, 10_000)
MANUAL = Rhythm("manual", 5, 10_000)
POOL, PROVIDER = FeeTerms(25, 25, False), FeeTerms(25, 25, True)


def at(month: int, day: int, *, year: int = 2026) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


@pytest.mark.parametrize(
    ("last", "now", "due"),
    [
        (None, at(11, 4), True),
        (at(11, 4), at(11, 5), True),
        (at(11, 5), at(11, 5), False),
        (at(11, 5), at(12, 4), False),
        (at(11, 5), at(12, 5), True),
        (at(12, 20), at(1, 4, year=2027), False),
        (at(12, 4), at(1, 4, year=2027), True),
    ],
)
def test_monthly_is_once_from_the_day_on(last, now, due):
    assert is_due(MONTHLY, last_drafted_at=last, now=now) is due


def test_the_months_start_wraps_around_the_year():
    assert month_start(MONTHLY, now=at(1, 4, year=2027)) == at(12, 5)


def test_a_threshold_is_always_due_and_a_manual_pool_never():
    assert is_due(THRESHOLD, last_drafted_at=at(11, 1), now=at(11, 1))
    assert not is_due(MANUAL, last_drafted_at=None, now=at(11, 1))


def test_a_providers_choice_stands_before_the_pools_unless_that_is_manual():
    assert rhythm(pool=MONTHLY, schedule="threshold", threshold_minor=500) == Rhythm("threshold", 5, 500)
    assert rhythm(pool=THRESHOLD, schedule="monthly", threshold_minor=None).kind == "monthly"
    assert rhythm(pool=MONTHLY, schedule="", threshold_minor=None) == MONTHLY
    assert rhythm(pool=MANUAL, schedule="monthly", threshold_minor=None) == MANUAL
    assert (wish_minor(THRESHOLD), wish_minor(MONTHLY)) == (10_000, 0)


@pytest.mark.parametrize(
    ("currency", "country", "given_minor", "floor"),
    [
        ("usd", "DE", {}, 100),
        ("jpy", "DE", {}, 1),
        ("kwd", "DE", {}, 1000),
        ("usd", "KR", {}, 4000),
        ("usd", "TH", {"TH": 2500}, 2500),
        ("usd", "KR", {"KR": 9000}, 9000),
    ],
)
def test_stripes_own_floor(currency, country, given_minor, floor):
    assert floor_minor(currency=currency, country=country, given=given_minor) == floor


def test_the_smallest_payout_is_the_largest_of_all_wishes():
    wishes = {"currency": "usd", "pool_minor": 2000, "given": {"TH": 2500}}

    assert smallest_minor(country="DE", wish_minor=0, **wishes) == 2000
    assert smallest_minor(country="DE", wish_minor=5000, **wishes) == 5000
    assert smallest_minor(country="TH", wish_minor=0, **wishes) == 2500
    assert smallest_minor(country="KR", wish_minor=0, **wishes) == 4000


def test_a_small_pool_minimum_stays_small_where_banks_take_little():
    assert smallest_minor(currency="usd", country="DE", pool_minor=1, wish_minor=0, given={}) == 1


def test_the_pool_bears_the_fee_beside_the_payout():
    found = parts(2550, POOL)

    assert (found.sent_minor, found.borne_minor, found.fee_minor) == (2550, 0, 31)


def test_the_provider_bears_the_fee_out_of_what_is_payable():
    found = parts(2550, PROVIDER)

    assert (found.sent_minor, found.borne_minor, found.fee_minor) == (2519, 31, 31)


@given(st.integers(min_value=0, max_value=10**9), st.integers(0, 500), st.integers(0, 1000), st.sampled_from([1, 100]))
def test_what_is_sent_and_borne_never_exceeds_what_is_payable(payable, fixed, bps, step):
    terms = FeeTerms(fixed, bps, is_borne_by_provider=True)

    found = parts(payable, terms, step=step)

    assert found.sent_minor + found.borne_minor <= payable
    assert found.sent_minor % step == 0
    assert found.borne_minor == fee_minor(found.sent_minor, terms)
    more = found.sent_minor + step
    assert more + fee_minor(more, terms) > payable


def test_nothing_sent_costs_nothing():
    assert fee_minor(0, PROVIDER) == 0
    assert parts(20, PROVIDER).sent_minor == 0
