"""A node's answer is rebuilt: our ids and names, no engine fields; its counts are claims and never summed."""

from typing import Any

import pytest

from portal.gateway import rewrite
from portal.gateway.contracts import Claim, Settled
from portal.gateway.dialects.base import Names, usage_object
from portal.gateway.dialects.chat import ChatDialect
from portal.gateway.failures import NodeFailed

NAMES = Names(answer_id="chatcmpl-x", created=5, model="acme/chat-8b", choices=1, has_logprobs=False)


def _chunk(**choice: Any) -> dict[str, Any]:
    row = {"index": 0, "delta": {"content": "Hi"}, "logprobs": None, "finish_reason": None, "token_ids": [1]}
    return {"id": "theirs", "model": "secret-name", "choices": [row | choice], "prompt_token_ids": [1, 2]}


def test_a_delta_keeps_its_text_and_loses_what_is_the_engines() -> None:
    found = rewrite.chunk(_chunk(stop_reason=7), NAMES)

    assert found.texts == [(0, "Hi")]
    assert found.finished == 0
    assert ChatDialect(NAMES, currency="usd", wants_usage=False).delta(found.choices) == (
        b'data: {"id":"chatcmpl-x","object":"chat.completion.chunk","created":5,"model":"acme/chat-8b",'
        b'"choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}]}\n\n'
    )


def test_reasoning_and_tool_calls_are_text_that_was_handed_over() -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a"'}, "x": 1}
    found = rewrite.chunk(_chunk(delta={"reasoning": "hm", "tool_calls": [call]}), NAMES)

    assert found.texts == [(0, "hm"), (0, "f"), (0, '{"a"')]
    assert found.choices[0]["delta"]["tool_calls"] == [
        {"function": {"name": "f", "arguments": '{"a"'}, "index": 0, "id": "c1", "type": "function"}
    ]


def test_an_unknown_finish_reason_becomes_stop() -> None:
    found = rewrite.chunk(_chunk(finish_reason="abort"), NAMES)

    assert found.finished == 1
    assert found.choices[0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"choices": {}},
        {"choices": ["x"]},
        _chunk(index=1),
        _chunk(index=-1),
        _chunk(index="0"),
        _chunk(delta="Hi"),
        _chunk(delta={"content": 5}),
        _chunk(delta={"tool_calls": "x"}),
        _chunk(delta={"tool_calls": [{"function": {"name": 5}}]}),
        _chunk(delta={"tool_calls": [{}] * 300}),
    ],
)
def test_what_no_honest_engine_sends_is_the_nodes_fault(value: dict[str, Any]) -> None:
    with pytest.raises(NodeFailed) as failure:
        rewrite.chunk(value, NAMES)

    assert failure.value.outcome == "node_fault"


@pytest.mark.parametrize("data", [b"nonsense", b"[]", b'{"error": {"message": "EngineCore died", "code": 500}}'])
def test_an_error_in_the_stream_is_the_nodes_fault(data: bytes) -> None:
    with pytest.raises(NodeFailed):
        rewrite.parse(data)


def test_counts_are_the_newest_and_absent_is_not_zero() -> None:
    claim = Claim()

    rewrite.take_claim({"usage": {"prompt_tokens": 26, "completion_tokens": 0}}, claim)
    rewrite.take_claim({"usage": {"prompt_tokens": 26, "completion_tokens": 7}}, claim)
    rewrite.take_claim({"usage": {"completion_tokens": None, "prompt_tokens": -4}}, claim)
    rewrite.take_claim({"usage": {"completion_tokens": True, "prompt_tokens": "9"}}, claim)
    rewrite.take_claim({"choices": []}, claim)

    assert claim == Claim(prompt=26, cached=None, completion=7, oddities=("usage_invalid",))


@pytest.mark.parametrize(
    "count", [-1, 2**31, 2**70, 1.5, 3.0, "7", True, [], {}, float("1e300")], ids=lambda count: repr(count)[:20]
)
def test_what_is_no_count_is_not_taken_and_remembered(count: object) -> None:
    claim = Claim(prompt=5, completion=5, cached=1)

    usage = {"prompt_tokens": count, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": count}}
    rewrite.take_claim({"usage": usage}, claim)

    assert (claim.prompt, claim.completion, claim.cached) == (5, 5, 1)
    assert claim.oddities == ("usage_invalid",)


def test_a_second_closing_usage_counts_alone_and_is_remembered() -> None:
    claim = Claim()
    for completion in (7, 9):
        rewrite.take_event_claim({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": completion}}, claim)

    assert (claim.prompt, claim.completion) == (4, 9)
    assert claim.oddities == ("usage_repeated",)


# ROCm/ATOM#1711, portkey#1338
def test_a_usage_event_without_choices_is_read_all_the_same() -> None:
    claim = Claim()
    value: dict[str, Any] = {"usage": {"prompt_tokens": 4, "completion_tokens": 7}}

    rewrite.take_event_claim(value, claim)

    assert (claim.prompt, claim.completion) == (4, 7)
    assert rewrite.chunk(value, NAMES).choices == []
    assert claim.oddities == ("usage_without_choices",)


def test_running_counts_are_no_closing_ones() -> None:
    claim = Claim()
    for completion in (1, 2, 3):
        usage = {"prompt_tokens": 4, "completion_tokens": completion}
        rewrite.take_event_claim({"choices": [{"index": 0, "delta": {}}], "usage": usage}, claim)

    assert claim == Claim(prompt=4, completion=3)


LOGPROBS = Names(answer_id="a", created=1, model="m", choices=1, has_logprobs=True)
GOOD_LOGPROB = {
    "token": "a",
    "logprob": -0.5,
    "bytes": [97],
    "top_logprobs": [{"token": "b", "logprob": -9, "bytes": None}],
}


def test_logprobs_are_rebuilt_from_what_is_known_of_them() -> None:
    value = _chunk(logprobs={"content": [GOOD_LOGPROB | {"x": "theirs"}], "y": "theirs"})

    (choice,) = rewrite.chunk(value, LOGPROBS).choices

    assert choice["logprobs"] == {"content": [GOOD_LOGPROB], "refusal": None}


@pytest.mark.parametrize(
    "row",
    [
        "text",
        {"token": "x" * 2_000, "logprob": 0},
        {"token": 5, "logprob": 0},
        {"token": "a", "logprob": "0"},
        {"token": "a", "logprob": True},
        {"token": "a", "logprob": 0, "bytes": [256]},
        {"token": "a", "logprob": 0, "bytes": [[]]},
        {"token": "a", "logprob": 0, "bytes": [1] * 2_000},
        {"token": "a", "logprob": 0, "top_logprobs": [{"token": "a", "logprob": 0}] * 22},
        {"token": "a", "logprob": 0, "top_logprobs": {"a": 1}},
    ],
)
def test_logprobs_of_another_shape_are_the_nodes_fault(row: object) -> None:
    with pytest.raises(NodeFailed) as failure:
        rewrite.chunk(_chunk(logprobs={"content": [row]}), LOGPROBS)

    assert (failure.value.code, failure.value.rule) == ("logprobs", "answer_malformed")


def test_cached_zero_is_a_statement() -> None:
    claim = Claim()

    rewrite.take_claim({"usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}}, claim)

    assert claim.cached == 0


def test_a_whole_answer_must_have_all_its_choices_and_their_ends() -> None:
    row = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    two = Names(answer_id="a", created=1, model="m", choices=2, has_logprobs=False)

    with pytest.raises(NodeFailed):
        rewrite.answer({"choices": [row]}, two)
    with pytest.raises(NodeFailed):
        rewrite.answer({"choices": [row | {"finish_reason": None}]}, NAMES)


def test_usage_carries_the_billed_counts_and_the_cost_as_text() -> None:
    settled = Settled("completed", 10, 4, 5, "claim", 1_234_567, 1_000_000)

    assert usage_object(settled, "usd") == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4},
        "cost": "0.001234567",
        "currency": "usd",
    }
