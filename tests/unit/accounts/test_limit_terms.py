"""Limits, budgets, networks and zones as people write them."""

from ipaddress import ip_network

import pytest

from portal.accounts.models import BudgetPeriod
from portal.accounts.rules import key_terms, terms
from portal.core.errors import InvalidValue


def test_the_periods_are_those_that_the_database_allows():
    assert list(terms.PERIODS) == BudgetPeriod.values


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(None, None, None), (3, None, 3), (None, 4, 4), (3, 4, 3), (4, 3, 3)]
)
def test_the_stricter_of_two_limits(first, second, expected):
    assert terms.stricter(first, second) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" 192.0.2.7 ", "192.0.2.7/32"),
        ("192.0.2.7/24", "192.0.2.0/24"),
        ("2001:db8::1/32", "2001:db8::/32"),
        ("::ffff:192.0.2.7", "192.0.2.7/32"),
        ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
        ("::/0", "::/0"),
    ],
)
def test_a_network_in_one_form(text, expected):
    assert key_terms.network(text) == ip_network(expected)


@pytest.mark.parametrize("text", ["", "192.0.2.0/33", "example.com", "192.0.2", "1;2"])
def test_what_is_no_network(text):
    with pytest.raises(InvalidValue) as refusal:
        key_terms.network(text)

    assert refusal.value.param == "networks"


def test_too_many_networks():
    with pytest.raises(InvalidValue):
        key_terms.in_one_form(f"10.0.{number}.0/24" for number in range(65))
