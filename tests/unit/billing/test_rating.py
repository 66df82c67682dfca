"""Rating: one price, one rounding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules.rating import CostLine, Terms, charge_nano, completion_for, cost_lines

PRICE = Terms(200_000_000, 50_000_000, 800_000_000, 1_000)


@pytest.mark.parametrize(
    ("prompt", "cached", "completion", "expected"),
    [
        (0, 0, 0, 1_000),
        (1_000, 0, 500, 601_000),
        (1_000, 1_000, 0, 51_000),
        (1_000, 400, 0, 1_000 + 120_000 + 20_000),
    ],
)
def test_each_token_is_priced_once(prompt, cached, completion, expected):
    assert charge_nano(price=PRICE, prompt=prompt, cached=cached, completion=completion) == expected


@pytest.mark.parametrize(("per_mtok", "expected"), [(499_999, 0), (500_000, 1), (1_499_999, 1), (1_500_000, 2)])
def test_half_a_unit_is_rounded_up(per_mtok, expected):
    assert charge_nano(price=Terms(per_mtok, 0, 0), prompt=1, cached=0, completion=0) == expected


@pytest.mark.parametrize(("prompt", "cached", "completion"), [(-1, 0, 0), (0, 1, 0), (5, -1, 0), (0, 0, -1)])
def test_impossible_counts_are_refused(prompt, cached, completion):
    with pytest.raises(ValueError, match="cannot rate"):
        charge_nano(price=PRICE, prompt=prompt, cached=cached, completion=completion)
    with pytest.raises(ValueError, match="cannot rate"):
        cost_lines(price=PRICE, prompt=prompt, cached=cached, completion=completion)


def test_the_lines_name_what_was_used():
    assert cost_lines(price=PRICE, prompt=10, cached=4, completion=0) == [
        CostLine("prompt tokens", 6, 200_000_000),
        CostLine("cached prompt tokens", 4, 50_000_000),
        CostLine("request", 1, 1_000),
    ]
    assert cost_lines(price=Terms(1, 1, 1), prompt=0, cached=0, completion=0) == []


@given(
    price=st.builds(
        Terms,
        prompt_nano_per_mtok=st.integers(0, 10**13),
        cached_nano_per_mtok=st.integers(0, 10**13),
        completion_nano_per_mtok=st.integers(1, 10**13),
        request_nano=st.integers(0, 10**9),
    ),
    prompt=st.integers(0, 10**6),
    extra=st.integers(0, 10**12),
)
def test_what_a_hold_pays_for_is_exact_to_the_token(price, prompt, extra):
    dearest = max(charge_nano(price=price, prompt=prompt, cached=cached, completion=0) for cached in (0, prompt))
    nano = dearest + extra

    tokens = completion_for(price=price, prompt=prompt, nano=nano)

    def cost(completion: int) -> int:
        return max(
            charge_nano(price=price, prompt=prompt, cached=cached, completion=completion) for cached in (0, prompt)
        )

    assert tokens >= 0
    assert cost(tokens) <= nano < cost(tokens + 1)
