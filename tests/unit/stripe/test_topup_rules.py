"""Bounds of a purchase, and what makes Stripe's session another one than ours."""

from dataclasses import dataclass, replace

import pytest

from portal.billing.rules.topups import Seen, least_minor, mismatch, most_minor


@dataclass
class Row:
    """What we asked for."""

    public_id: str = "topup_1"
    amount_minor: int = 5000
    currency: str = "usd"
    stripe_customer: str = "cus_1"


SEEN = Seen(reference="topup_1", amount_minor=5000, currency="usd", customer="cus_1", is_live=False)


def test_what_we_asked_for_matches():
    assert mismatch(Row(), SEEN, is_live=False) == ""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"reference": "topup_2"}, "reference: topup_1 here, topup_2 at Stripe"),
        ({"amount_minor": 4999}, "amount: 5000 here, 4999 at Stripe"),
        ({"currency": "eur"}, "currency: usd here, eur at Stripe"),
        ({"customer": "cus_2"}, "customer: cus_1 here, cus_2 at Stripe"),
        ({"is_live": True}, "livemode: False here, True at Stripe"),
    ],
)
def test_any_other_field_does_not(change, problem):
    assert mismatch(Row(), replace(SEEN, **change), is_live=False) == problem


@pytest.mark.parametrize(
    ("currency", "least", "most"),
    [("usd", 500, 1_000_000), ("jpy", 500, 2_000_000), ("kwd", 5000, 10_000_000)],
)
def test_bounds(currency, least, most):
    assert (least_minor(currency), most_minor(currency)) == (least, most)
