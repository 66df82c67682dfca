"""What a currency allows: the smallest charge, whole units, no third decimal."""

import pytest

from portal.sandbox.stripe_double import currencies
from portal.sandbox.stripe_double.faults import Refusal


@pytest.mark.parametrize(
    ("amount", "currency"),
    [(50, "usd"), (50, "jpy"), (150, "kwd"), (30, "gbp"), (17_500, "huf"), (99_999_999, "usd"), (5000, "isk")],
)
def test_an_amount_that_fits(amount, currency):
    currencies.check_charge(amount, currency)


@pytest.mark.parametrize(
    ("amount", "currency", "code"),
    [
        (49, "usd", "amount_too_small"),
        (49, "jpy", "amount_too_small"),
        (140, "kwd", "amount_too_small"),
        (155, "kwd", ""),
        (5050, "isk", ""),
        (100_000_000, "usd", "amount_too_large"),
    ],
)
def test_an_amount_that_does_not_fit(amount, currency, code):
    with pytest.raises(Refusal) as refused:
        currencies.check_charge(amount, currency)

    assert refused.value.code == code


@pytest.mark.parametrize(("amount", "currency"), [(0, "usd"), (-1, "usd"), (150, "huf")])
def test_a_transfer_that_does_not_fit(amount, currency):
    with pytest.raises(Refusal):
        currencies.check_transfer(amount, currency)
