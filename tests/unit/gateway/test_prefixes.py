"""What a node must have cached follows from what it was sent before."""

import pytest

from portal.gateway.prefixes import BLOCK_BYTES, FRESH_S, PrefixHistory, Sent
from portal.metering.rules import counting

PROMPT = bytes(range(250)) * 20


def _sent(*, node: int = 1, tenant: int = 1, at: float = 0.0, first: float | None = 0.5) -> Sent:
    return Sent(scope=(node, tenant), opened_at=at, first_token_at=None if first is None else at + first)


def test_the_first_prompt_finds_nothing_and_the_second_all_whole_blocks():
    history = PrefixHistory()

    assert history.note(_sent(), PROMPT) == 0
    assert history.note(_sent(at=1), PROMPT) == 19 * BLOCK_BYTES


def test_a_shared_beginning_counts_up_to_where_the_prompts_part():
    history = PrefixHistory()
    history.note(_sent(), PROMPT)

    assert history.note(_sent(at=1), PROMPT[:1_100] + b"other" * 500) == 4 * BLOCK_BYTES


def test_the_end_of_a_prompt_is_never_cached():
    history = PrefixHistory()
    history.note(_sent(), PROMPT[: 2 * BLOCK_BYTES])

    assert history.note(_sent(at=1), PROMPT[: 2 * BLOCK_BYTES]) == BLOCK_BYTES
    assert history.note(_sent(at=2), PROMPT[:BLOCK_BYTES]) == 0


def test_other_nodes_and_other_tenants_share_nothing():
    history = PrefixHistory()
    history.note(_sent(), PROMPT)

    assert history.note(_sent(node=2, at=1), PROMPT) == 0
    assert history.note(_sent(tenant=2, at=1), PROMPT) == 0


def test_a_prompt_that_left_before_the_others_prefill_was_done_expects_nothing():
    history = PrefixHistory()
    history.note(_sent(at=0.2), PROMPT)

    assert history.note(_sent(at=0.1), PROMPT) == 0


def test_a_prompt_without_an_answer_leaves_nothing_behind():
    history = PrefixHistory()
    history.note(_sent(first=None), PROMPT)

    assert history.note(_sent(at=1), PROMPT) == 0


def test_what_was_sent_long_ago_is_not_expected():
    history = PrefixHistory()
    history.note(_sent(), PROMPT)

    assert history.note(_sent(at=FRESH_S + 1), PROMPT) == 0


def test_memory_is_bounded_and_heads_outlive_tails():
    history = PrefixHistory(blocks=24)
    history.note(_sent(), PROMPT)
    history.note(_sent(node=2, at=1), PROMPT)

    assert len(history) == 24
    assert history.note(_sent(at=2), PROMPT) == 5 * BLOCK_BYTES


@pytest.mark.parametrize(
    ("matched", "tokens"),
    [(0, 0), (17, 0), (2_500, 2_240), (4_000, 3_600), (5_000, 4_496)],
)
def test_a_matched_beginning_is_a_lower_bound_in_whole_engine_blocks(matched, tokens):
    found = counting.expected_cached(prompt=5_000, matched_bytes=matched, all_bytes=5_000)

    assert found == tokens
