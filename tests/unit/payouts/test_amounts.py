"""What can be sent of a balance."""

import pytest

from portal.payouts.rules.amounts import payable_minor


@pytest.mark.parametrize(
    ("nano", "currency", "minor"),
    [
        (0, "usd", 0),
        (-5, "usd", 0),
        (9_999_999, "usd", 0),
        (10_000_000, "usd", 1),
        (25_509_999_999, "usd", 2550),
        (25_509_999_999, "jpy", 25),
        (25_509_999_999, "kwd", 25_500),
        (25_990_000_000, "huf", 2500),
        (25_990_000_000, "isk", 2500),
        (25_990_000_000, "UGX", 2500),
    ],
)
def test_the_rest_stays_payable(nano, currency, minor):
    assert payable_minor(nano, currency) == minor
