"""Claims may never run ahead of what the node's own engine has counted."""

import pytest

from portal.trust.rules import engine_counters
from portal.trust.rules.engine_counters import Tokens


@pytest.mark.parametrize(
    ("claimed", "engine", "is_ahead"),
    [
        (Tokens(1_000_000, 500_000), Tokens(1_000_000, 500_000), False),
        (Tokens(1_010_000 + 16_384, 0), Tokens(1_000_000, 0), False),
        (Tokens(1_010_000 + 16_385, 0), Tokens(1_000_000, 0), True),
        (Tokens(0, 16_385), Tokens(9_999_999, 0), True),
        (Tokens(0, 0), Tokens(0, 0), False),
    ],
)
def test_a_hundredth_and_what_was_under_way_is_allowed(claimed, engine, is_ahead):
    assert engine_counters.exceeds_engine(claimed=claimed, engine=engine) is is_ahead


@pytest.mark.parametrize(
    "counters",
    [{}, {"prompt_tokens_total": 5}, {"prompt_tokens_total": -1, "generation_tokens_total": 5}],
)
def test_counters_that_are_not_there_are_unknown_and_not_zero(counters):
    assert engine_counters.read(counters) is None


def test_a_counter_that_fell_is_an_engine_that_began_anew():
    assert engine_counters.has_restarted(before=Tokens(10, 10), now=Tokens(12, 9))
    assert not engine_counters.has_restarted(before=Tokens(10, 10), now=Tokens(10, 10))
