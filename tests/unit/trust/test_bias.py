"""A node stands out only when it is measured and claims more than its model explains."""

import pytest

from portal.trust.rules import bias
from portal.trust.rules.bias import Sums


@pytest.mark.parametrize(
    ("own", "others", "exceeds"),
    [
        (Sums(1_000, 1_000), Sums(), False),
        (Sums(1_002, 1_000), Sums(), False),
        (Sums(1_003, 1_000), Sums(), True),
        (Sums(1_003, 1_000, 1), Sums(), False),
        (Sums(1_020, 999), Sums(), False),
        (Sums(900, 1_000), Sums(), False),
        (Sums(1_020, 1_000), Sums(2_040, 2_000), False),
        (Sums(1_023, 1_000), Sums(2_040, 2_000), True),
        (Sums(1_020, 1_000), Sums(900, 800), True),
    ],
)
def test_when_a_node_exceeds_its_model(own, others, exceeds):
    assert bias.exceeds_model(own=own, others=others) is exceeds


def test_sums_add_up():
    assert Sums(3, 2, 1) + Sums(4, 4, 0) == Sums(7, 6, 1)


def test_weights():
    assert bias.weight(has_tolerance=True, is_measured=True) == 1.0
    assert bias.weight(has_tolerance=True, is_measured=False) == 0.8
    assert bias.weight(has_tolerance=False, is_measured=True) == 0.5
