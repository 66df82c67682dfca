"""Money: exact at every edge."""

import pytest

from portal.core import money


@pytest.mark.parametrize(("currency", "digits"), [("usd", 2), ("USD", 2), ("jpy", 0), ("kwd", 3), ("eur", 2)])
def test_each_currency_has_its_exponent(currency, digits):
    assert money.exponent(currency) == digits


@pytest.mark.parametrize(
    ("minor", "currency", "nano"),
    [
        (1, "usd", 10_000_000),
        (1, "jpy", 1_000_000_000),
        (1, "kwd", 1_000_000),
        (0, "usd", 0),
        (12_345, "usd", 123_450_000_000),
    ],
)
def test_minor_units_become_nano_exactly(minor, currency, nano):
    assert money.nano_from_minor(minor, currency) == nano


def test_dust_stays_behind():
    assert money.minor_from_nano(123_456_789_012, "usd") == (12_345, 6_789_012)
    assert money.minor_from_nano(1_999_999_999, "jpy") == (1, 999_999_999)
    assert money.minor_from_nano(1_999_999, "kwd") == (1, 999_999)


def test_a_negative_amount_has_no_minor_units():
    with pytest.raises(ValueError, match="negative"):
        money.minor_from_nano(-1, "usd")


@pytest.mark.parametrize(
    ("charge", "bps", "parts"), [(1, 8000, (0, 1)), (10_000, 8000, (8000, 2000)), (7, 10_000, (7, 0)), (7, 0, (0, 7))]
)
def test_a_share_is_floored_and_the_rest_is_the_platforms(charge, bps, parts):
    assert money.split_share(charge, bps) == parts


@pytest.mark.parametrize(("charge", "bps"), [(-1, 8000), (1, -1), (1, 10_001)])
def test_an_impossible_split_is_refused(charge, bps):
    with pytest.raises(ValueError, match="cannot split"):
        money.split_share(charge, bps)


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "0"),
        (1, "0.000000001"),
        (-1, "-0.000000001"),
        (1_500_000_000, "1.5"),
        (-2_000_000_000, "-2"),
        (10_000_000, "0.01"),
    ],
)
def test_amounts_are_plain_decimals(nano, text):
    assert money.decimal_text(nano) == text
    assert money.nano_from_text(text) == nano


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "-",
        "--1",
        "1.",
        "1e3",
        "1,5",
        "0.0000000001",
        "½",
        "1.²",
        "٣",
        "+1",
        "1. 5",
        "-.",
        "1.-5",
        "nan",
        " ",
        ".5",
        "1" * 19,
    ],
)
def test_other_text_is_no_amount(text):
    with pytest.raises(ValueError, match="not an amount"):
        money.nano_from_text(text)


def test_spaces_around_an_amount_are_forgiven():
    assert money.nano_from_text(" 0.25 ") == 250_000_000


def test_no_amount_is_larger_than_its_column():
    assert money.nano_from_text("9223372036.854775807") == money.LARGEST_NANO
    with pytest.raises(ValueError, match="too large"):
        money.nano_from_text("-9223372036.854775808")
