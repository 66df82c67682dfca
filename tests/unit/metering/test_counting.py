"""The node's claim is billed, never more than our own count allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.metering.rules import counting, outcomes
from portal.metering.rules.counting import Billed, Counted, Source

tokens = st.integers(min_value=0, max_value=10**7)


@pytest.mark.parametrize(
    ("claim", "counted", "expected"),
    [
        (50, Counted(50, 400), Billed(50, Source.CLAIM)),
        (40, Counted(50, 400), Billed(40, Source.CLAIM)),
        (51, Counted(50, 400, extra=1), Billed(51, Source.CLAIM)),
        (51, Counted(50, 400), Billed(50, Source.COUNT)),
        (1_010, Counted(1_000, 9_000), Billed(1_010, Source.CLAIM)),
        (1_011, Counted(1_000, 9_000), Billed(1_010, Source.COUNT)),
        (1_011, Counted(1_000, 9_000, extra=1), Billed(1_011, Source.CLAIM)),
        (None, Counted(50, 400, extra=3), Billed(50, Source.COUNT)),
        (0, Counted(50, 400), Billed(0, Source.CLAIM)),
        (50, Counted(None, 400), Billed(50, Source.BOUND)),
        (500, Counted(None, 400), Billed(400, Source.BOUND)),
        (None, Counted(None, 400), Billed(400, Source.BOUND)),
    ],
)
def test_what_is_billed(claim, counted, expected):
    assert counting.bill(claim=claim, counted=counted, has_tolerance=True) == expected


def test_without_tolerance_the_one_percent_is_gone_and_end_tokens_stay():
    counted = Counted(1_000, 9_000, extra=2)

    assert counting.bill(claim=1_010, counted=counted, has_tolerance=False) == Billed(1_002, Source.COUNT)


@given(claim=st.none() | tokens, count=tokens, extra=st.integers(0, 50), has_tolerance=st.booleans())
def test_never_more_than_claimed_nor_than_counted_allows(claim, count, extra, has_tolerance):
    billed = counting.bill(claim=claim, counted=Counted(count, 10**9, extra), has_tolerance=has_tolerance).tokens

    assert billed <= (count if claim is None else claim)
    assert billed <= count + extra + (count // 100 if has_tolerance else 0)


@pytest.mark.parametrize(("claim", "expected"), [(None, None), (-5, 0), (7, 7), (10**12, 2**31 - 1)])
def test_a_claim_fits_its_column(claim, expected):
    assert counting.sound(claim) == expected


@pytest.mark.parametrize(
    ("outcome", "silent", "delivered"),
    [
        ("completed", True, True),
        ("customer_abort", True, True),
        ("credit_end", True, True),
        ("platform_crash", False, True),
        ("node_fault", False, False),
        ("node_timeout", False, False),
        ("node_busy", False, False),
        ("empty", False, False),
        ("customer_error", False, False),
    ],
)
def test_what_is_charged(outcome, silent, delivered):
    assert outcomes.is_charged(outcome=outcome, has_delivered=False) is silent
    assert outcomes.is_charged(outcome=outcome, has_delivered=True) is delivered
