"""Whose fault silence is: over 20 % (and over 3) of the fleet within 60 seconds is the platform's."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.nodes.rules.silence import is_platform_fault

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


def together(count: int, *, spread_s: int = 50) -> list[datetime]:
    return [NOW - timedelta(seconds=spread_s * index / max(1, count - 1)) for index in range(count)]


@pytest.mark.parametrize(
    ("silent", "fleet", "verdict"),
    [
        (0, 0, False),
        (1, 1, False),
        (3, 3, False),
        (4, 4, True),
        (4, 19, True),
        (4, 20, False),
        (5, 24, True),
        (200, 1000, False),
        (201, 1000, True),
    ],
)
def test_the_share_and_the_number_both_count(silent, fleet, verdict):
    assert is_platform_fault(silent_since=together(silent), fleet=fleet) is verdict


def test_nodes_that_fell_silent_one_after_the_other_are_their_own_fault():
    one_by_one = [NOW - timedelta(seconds=61 * index) for index in range(10)]

    assert is_platform_fault(silent_since=one_by_one, fleet=10) is False


def test_a_minute_is_a_minute_whatever_the_order():
    mixed = [NOW - timedelta(hours=1), *reversed(together(4, spread_s=60)), NOW - timedelta(hours=2)]

    assert is_platform_fault(silent_since=mixed, fleet=19) is True
    assert is_platform_fault(silent_since=[*together(4, spread_s=64)], fleet=19) is False
