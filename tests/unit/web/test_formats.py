"""Money, counts and times as pages write them."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.web import formats

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "$0.00"),
        (12_340_000_000, "$12.34"),
        (5_000_000, "$0.01"),
        (4_999_999, "$0.00"),
        (1_234_567_890_000_000, "$1,234,567.89"),
        (-3_200_000_000, "\N{MINUS SIGN}$3.20"),
        (-1, "$0.00"),
        (None, "—"),
    ],
)
def test_money_has_two_places_half_up(nano, text):
    assert formats.money(nano, currency="usd") == text


def test_a_currency_without_a_symbol_is_named():
    assert formats.money(1_500_000_000, currency="chf") == "1.50 CHF"


@pytest.mark.parametrize(
    ("nano", "currency", "text"),
    [
        (10_000_000_000_000, "usd", "10,000.00"),
        (1_352_000_000, "usd", "1.352"),
        (-1, "usd", "\N{MINUS SIGN}0.000000001"),
        (0, "usd", "0.00"),
        (5_000_000_000, "jpy", "5"),
        (5_500_000_000, "kwd", "5.500"),
        (None, "usd", "—"),
    ],
)
def test_auditors_see_every_nano(nano, currency, text):
    assert formats.exact_number(nano, currency=currency) == text


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (412_000, "$0.000412"),
        (1_646_600_000, "$1.6466"),
        (2_000_000_000, "$2.00"),
        (0, "$0.00"),
        (999, "<$0.000001"),
        (1000, "$0.000001"),
        (1_234_000_000_000, "$1,234.00"),
        (None, "—"),
    ],
)
def test_a_requests_cost_has_up_to_six_places(nano, text):
    assert formats.exact_money(nano, currency="usd") == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (1234, "1.23k"),
        (812_400, "812k"),
        (999_900, "1M"),
        (21_430_000, "21.4M"),
        (7_000_000_000, "7B"),
        (None, "—"),
    ],
)
def test_counts_are_written_with_three_figures(number, text):
    assert formats.compact(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3, "3 s ago"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (7200, "2 h ago"),
        (-300, "in 5 min"),
        (172_800, "2026-10-31"),
    ],
)
def test_moments_are_near_or_dated(seconds, text):
    assert formats.ago(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(("ms", "text"), [(218, "218 ms"), (1240, "1.24 s"), (None, "—")])
def test_latencies(ms, text):
    assert formats.duration(ms) == text


def test_shares_and_memory():
    assert formats.percent(1, 3) == "33.3%"
    assert formats.percent(1, 0) == "—"
    assert formats.gib(25_757_220_864) == "24 GiB"
