"""What a node must have cached follows from what it was sent before."""

from portal.gateway.prefixes import BLOCK_TOKENS, FRESH_S, PrefixHistory, Sent

PROMPT = list(range(1_000))


def _sent(*, node: int = 1, tenant: int = 1, at: float = 0.0, first: float | None = 0.5) -> Sent:
    return Sent(node_id=node, tenant=tenant, opened_at=at, first_token_at=None if first is None else at + first)


def test_the_first_prompt_finds_nothing_and_the_second_all_whole_blocks():
    history = PrefixHistory()

    assert history.note(_sent(), PROMPT) == 0
    assert history.note(_sent(at=1), PROMPT) == 15 * BLOCK_TOKENS


def test_a_shared_beginning_counts_up_to_where_the_prompts_part():
    history = PrefixHistory()
    history.note(_sent(), PROMPT)

    other = [*PROMPT[:300], *range(5_000, 5_700)]

    assert history.note(_sent(at=1), other) == 4 * BLOCK_TOKENS


def test_the_last_token_is_never_cached():
    history = PrefixHistory()
    history.note(_sent(), PROMPT[: 2 * BLOCK_TOKENS])

    assert history.note(_sent(at=1), PROMPT[: 2 * BLOCK_TOKENS]) == BLOCK_TOKENS
    assert history.note(_sent(at=2), PROMPT[:BLOCK_TOKENS]) == 0


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
    history = PrefixHistory(blocks=20)
    history.note(_sent(), PROMPT)
    history.note(_sent(node=2, at=1), PROMPT)

    assert len(history) == 20
    assert history.note(_sent(at=2), PROMPT) == 5 * BLOCK_TOKENS
