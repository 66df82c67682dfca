"""A sum is written so that a little is not nothing."""

import pytest

from portal.web.formats import total_money


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (None, "—"),
        (0, "$0.00"),
        (1, "<$0.000001"),
        (1_755_000, "$0.001755"),
        (999_999_999, "$1.00"),
        (1_000_000_000, "$1.00"),
        (1_234_567_890_000, "$1,234.57"),
        (-480_000, "\u2212$0.00048"),
    ],
)
def test_small_sums_keep_their_decimals(nano, text):
    assert total_money(nano, currency="usd") == text
