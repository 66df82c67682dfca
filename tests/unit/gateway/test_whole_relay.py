"""A whole answer: read within bounds, checked, settled, and only then written."""

import asyncio
import json
from typing import Any

import pytest

from portal.gateway.exchange import CustomerGone
from portal.gateway.failures import NodeFailed
from portal.gateway.relay.calls import Pace
from portal.gateway.tunnel import frames
from tests.unit.gateway.relaying import Relayed

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
GOOD = {"id": "x", "choices": [CHOICE], "usage": {"prompt_tokens": 4, "completion_tokens": 2}}


async def _answered(value: Any, *, status: int = 200, **fields: Any) -> Relayed:
    relayed = await Relayed(**fields).begin()
    relayed.head(status)
    relayed.write(value if isinstance(value, bytes) else json.dumps(value).encode())
    relayed.end()
    return relayed


async def _failure(relayed: Relayed) -> NodeFailed:
    with pytest.raises(NodeFailed) as failure:
        await relayed.finish()
    assert relayed.customer.written == []
    assert relayed.settled == 0
    return failure.value


async def test_a_good_answer_is_settled_then_written() -> None:
    relayed = await _answered(GOOD)

    await relayed.finish()

    assert relayed.settled == 1
    body = json.loads(relayed.customer.text)
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "Hello", "refusal": None}
    assert body["usage"]["cost"] == "1.5"
    assert relayed.attempt.claim.completion == 2
    assert relayed.attempt.delivered == ["Hello"]


async def test_log_probabilities_only_where_they_were_asked() -> None:
    value = GOOD | {"choices": [CHOICE | {"logprobs": {"content": [{"token": "Hello", "logprob": -0.1}]}}]}

    for fields, found in (({"logprobs": True}, True), ({}, False)):
        relayed = await _answered(value, **fields)
        await relayed.finish()
        assert (json.loads(relayed.customer.text)["choices"][0]["logprobs"] is not None) is found


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"nonsense", "answer_not_json"),
        ([], "answer_not_an_object"),
        ({"choices": []}, "answer_incomplete"),
        ({"choices": [CHOICE, CHOICE | {"index": 1}]}, "choice_index"),
        ({"choices": [CHOICE | {"finish_reason": None}]}, "answer_incomplete"),
        ({"choices": [CHOICE | {"message": None}]}, "choice_without_text"),
        ({"error": "Unauthorized"}, "engine_error"),
        (b"x" * 200_000 + b"y" * 60_000, "answer_not_json"),
    ],
)
async def test_answers_that_break_the_rules(value: Any, code: str) -> None:
    failure = await _failure(await _answered(value))

    assert (failure.outcome, failure.code) == ("node_fault", code)


async def test_an_answer_larger_than_any_honest_one() -> None:
    relayed = await Relayed(max_tokens=1).begin()
    relayed.head()
    for _ in range(5):
        relayed.write(b"x" * 60_000)
        await asyncio.sleep(0.01)

    assert (await _failure(relayed)).code == "answer_too_large"


@pytest.mark.parametrize(
    ("status", "body", "outcome", "code"),
    [
        (500, {"error": {"message": "dead", "code": 500}}, "node_fault", "engine_status_500"),
        (404, {"detail": "Not Found"}, "node_fault", "engine_status_404"),
        (401, {"error": "Unauthorized"}, "node_fault", "engine_status_401"),
        (302, {}, "node_fault", "engine_status"),
        (99_999, {}, "node_fault", "engine_status"),
        (503, {"error": {"message": "busy"}}, "node_busy", "engine_busy"),
        (429, {}, "node_busy", "engine_busy"),
        (400, {"error": {"message": "maximum context length is 512"}}, "customer_error", "context_length_exceeded"),
        (400, {"error": {"message": "bad schema"}}, "customer_error", "engine_refused"),
        (422, {"detail": [1]}, "customer_error", "engine_refused"),
    ],
)
async def test_the_engines_own_errors(status: int, body: Any, outcome: str, code: str) -> None:
    failure = await _failure(await _answered(body, status=status))

    assert (failure.outcome, failure.code) == (outcome, code)


async def test_no_text_is_no_answer_but_kept() -> None:
    silent = CHOICE | {"message": {"role": "assistant", "content": ""}}
    failure = await _failure(await _answered({"choices": [silent]}))

    assert failure.outcome == "empty"
    assert failure.ending is not None
    assert failure.ending.pieces[0][0]["finish_reason"] == "stop"


async def test_a_tool_call_is_an_answer() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    relayed = await _answered({"choices": [CHOICE | {"message": message, "finish_reason": "tool_calls"}]})

    await relayed.finish()

    assert json.loads(relayed.customer.text)["choices"][0]["message"]["tool_calls"] == [call]
    assert relayed.attempt.delivered == ["f", "{}"]


async def test_a_customer_who_leaves_while_the_node_works() -> None:
    relayed = await Relayed().begin()

    relayed.customer.leave()

    with pytest.raises(CustomerGone):
        await relayed.finish()


async def test_a_node_that_says_nothing() -> None:
    relayed = await Relayed(first_token_timeout_s=0.05, max_tokens=1).begin()

    assert (await _failure(relayed)).code == "timeout_answer"


async def test_a_tunnel_that_closes() -> None:
    relayed = await Relayed().begin()
    relayed.frame(frames.HEAD, b'{"status": 200, "content_type": "application/json"}')
    relayed._mux.lose()

    assert (await _failure(relayed)).code == "tunnel_lost"


async def test_a_whole_answer_that_trickles_in_ends() -> None:
    pace = Pace(body_idle_s=1, body_s=0.1, slowest_tokens_per_s=1_000)
    relayed = await Relayed(first_token_timeout_s=0.1, pace=pace, max_tokens=10).begin()
    relayed.head()

    async def drip() -> None:
        while True:
            relayed.write(b" ")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    with pytest.raises(NodeFailed) as failure:
        await relayed.finish()
    dripping.cancel()

    assert (failure.value.outcome, failure.value.code) == ("node_timeout", "timeout_total")


async def test_a_whole_answer_that_stops_half_way_ends() -> None:
    relayed = await Relayed(pace=Pace(body_idle_s=0.05)).begin()
    relayed.head()
    relayed.write(b'{"choices"')

    with pytest.raises(NodeFailed) as failure:
        await relayed.finish()

    assert (failure.value.code, failure.value.facts) == ("timeout_answer", {"bytes": 10})


@pytest.mark.parametrize("said", ["text/event-stream", "text/html", "", "application/jsonp"])
async def test_a_whole_answer_is_json(said: str) -> None:
    relayed = await Relayed().begin()
    relayed.head(content_type=said)
    relayed.write(b"{}")

    with pytest.raises(NodeFailed) as failure:
        await relayed.finish()

    assert (failure.value.code, failure.value.rule) == ("content_type_wrong", "content_type_wrong")
