"""When a place or a spend is unusual."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.accounts.rules import unusual
from portal.accounts.rules.unusual import Place

BEGAN = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
UNIT = 1_000_000_000


def place(network="203.0.113.0/24", country="DE", after=timedelta()):
    return Place(network, country, BEGAN + after)


HOME = place()


@pytest.mark.parametrize(("after", "is_new"), [(timedelta(hours=23, minutes=59), False), (timedelta(days=1), True)])
def test_a_key_is_settled_after_a_day(after, is_new):
    away = place("198.51.100.0/24", "BR", after)

    assert unusual.is_new_network(away, earlier=[HOME]) is is_new
    assert unusual.is_new_country(away, earlier=[HOME]) is is_new


def test_the_first_place_of_all_is_not_new():
    assert not unusual.is_new_network(HOME, earlier=[])
    assert not unusual.is_new_country(HOME, earlier=[])


def test_unknown_countries_say_nothing():
    late = timedelta(days=9)

    assert not unusual.is_new_country(place("198.51.100.0/24", "", late), earlier=[HOME])
    assert not unusual.is_new_country(place("198.51.100.0/24", "BR", late), earlier=[place(country="")])


@pytest.mark.parametrize(
    ("today", "days", "expected"),
    [
        (5 * UNIT, [UNIT, UNIT, UNIT], False),
        (5 * UNIT + 1, [UNIT, UNIT, UNIT], True),
        (5 * UNIT - 1, [0, 0, 0], False),
        (5 * UNIT, [0, 0, 0], True),
        (500 * UNIT, [UNIT, UNIT], False),
        (100 * UNIT, [30 * UNIT] * 14, False),
    ],
)
def test_a_spike_is_five_times_the_mean_and_more_than_the_floor(today, days, expected):
    assert unusual.is_spike(today_nano=today, days_nano=days) is expected
