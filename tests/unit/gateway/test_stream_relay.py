"""A stream under way: nothing before the first delta, everything once, each wait with its own end."""

import asyncio
from typing import Any

import pytest

from portal.gateway.exchange import CustomerGone
from portal.gateway.failures import NodeFailed
from portal.gateway.relay.calls import Pace
from portal.gateway.tunnel import frames
from tests.unit.gateway.relaying import Relayed, delta, event

ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
DONE = b"data: [DONE]\n\n"


async def _begun(**fields: Any) -> Relayed:
    relayed = await Relayed(stream=True, **fields).begin()
    relayed.head()
    return relayed


async def _failure(relayed: Relayed) -> NodeFailed:
    with pytest.raises(NodeFailed) as failure:
        await relayed.finish()
    return failure.value


async def test_headers_wait_for_the_first_delta() -> None:
    relayed = await _begun()
    relayed.event(ROLE)
    await asyncio.sleep(0.01)
    assert relayed.customer.status is None

    relayed.event(delta("Hello"))
    await relayed.until(lambda: "Hello" in relayed.customer.text)

    assert relayed.customer.status == 200
    assert relayed.customer.text.index('"role":"assistant"') < relayed.customer.text.index("Hello")
    relayed.task.cancel()


@pytest.mark.parametrize(
    "first",
    [
        delta(None, reasoning="Let me think"),
        delta(None, tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]),
    ],
)
async def test_reasoning_and_tool_calls_are_first_deltas_too(first: dict[str, Any]) -> None:
    relayed = await _begun()

    relayed.event(first)
    await relayed.until(lambda: relayed.customer.status == 200)

    assert relayed.attempt.first_token_at is not None
    assert relayed.attempt.delivered_bytes > 0
    relayed.task.cancel()


async def test_a_whole_stream_without_usage_settles_after_it() -> None:
    relayed = await _begun()
    for value in (ROLE, delta("Hel"), delta("lo"), delta("", reason="stop"), {"choices": [], "usage": {}}):
        relayed.event(value)
    relayed.write(DONE)
    relayed.end()

    await relayed.finish()

    assert relayed.customer.text.endswith("data: [DONE]\n\n")
    assert relayed.customer.has_whole_answer
    assert relayed.settled == 0, "the caller settles"
    assert relayed.attempt.delivered == ["Hel", "lo"]
    assert relayed.attempt.finished_choices == 1


async def test_usage_comes_last_and_is_what_was_settled() -> None:
    relayed = await _begun(stream_options={"include_usage": True})
    for value in (ROLE, delta("Hello"), delta("", reason="stop")):
        relayed.event(value)
    relayed.write(DONE)
    relayed.end()

    await relayed.finish()

    assert relayed.settled == 1
    usage, done = relayed.customer.text.rstrip().split("\n\n")[-2:]
    assert done == "data: [DONE]"
    assert '"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3' in usage
    assert '"cost":"1.5","currency":"usd"' in usage


async def test_characters_and_events_may_be_cut_anywhere() -> None:
    relayed = await _begun()
    wire = event(ROLE) + b": comment\r\n\r\n" + event(delta("Grüße 🚀 世界")) + event(delta("", reason="stop")) + DONE
    for byte in wire.replace(b"\n", b"\r\n"):
        relayed.write(bytes([byte]))
    relayed.end()

    await relayed.finish()

    assert "Grüße 🚀 世界" in relayed.customer.text
    assert relayed.attempt.delivered == ["Grüße 🚀 世界"]
    assert "comment" not in relayed.customer.text


async def test_choices_are_kept_apart() -> None:
    relayed = await _begun(n=2)
    for value in (
        delta("a", index=0),
        delta("x", index=1),
        delta("b", index=0, reason="stop"),
        delta("y", index=1, reason="length"),
    ):
        relayed.event(value)
    relayed.write(DONE)
    relayed.end()

    await relayed.finish()

    assert relayed.attempt.delivered_by_choice == {0: ["a", "b"], 1: ["x", "y"]}
    assert relayed.attempt.finished_choices == 2


async def test_a_waiting_customer_is_kept_alive_before_and_within_the_stream() -> None:
    relayed = await _begun()
    await relayed.until(lambda: ": ping\n" in relayed.customer.text)
    assert relayed.customer.status == 200
    assert "\n\n" not in relayed.customer.text

    relayed.event(delta("Hello"))
    await relayed.until(lambda: "Hello" in relayed.customer.text)
    await relayed.until(lambda: relayed.customer.text.endswith(": ping\n"))
    relayed.task.cancel()


async def test_no_first_token_in_time() -> None:
    relayed = await Relayed(stream=True, first_token_timeout_s=0.1).begin()

    failure = await _failure(relayed)

    assert (failure.outcome, failure.code) == ("node_timeout", "timeout_first_token")
    assert relayed.attempt.first_token_at is None


async def test_role_chunks_do_not_count_as_life() -> None:
    relayed = await Relayed(stream=True, first_token_timeout_s=0.15).begin()
    relayed.head()

    async def drip() -> None:
        while True:
            relayed.event(ROLE)
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    failure = await _failure(relayed)
    dripping.cancel()

    assert failure.code == "timeout_first_token"


async def test_a_stream_that_falls_silent() -> None:
    relayed = await _begun()
    relayed.event(delta("Hello"))

    failure = await _failure(relayed)

    assert (failure.outcome, failure.code) == ("node_timeout", "timeout_idle")
    assert relayed.attempt.delivered == ["Hello"]


async def test_a_customer_who_leaves_stops_the_relay_at_once() -> None:
    relayed = await _begun()
    relayed.event(delta("Hello"))
    await relayed.until(lambda: "Hello" in relayed.customer.text)

    relayed.customer.leave()

    with pytest.raises(CustomerGone):
        await relayed.finish()
    assert relayed.attempt.delivered == ["Hello"]


async def test_what_could_not_be_written_was_not_delivered() -> None:
    relayed = await _begun()
    relayed.customer.may_read.clear()
    relayed.event(delta("Hello"))
    await asyncio.sleep(0.02)
    relayed.customer.leave()
    relayed.customer.may_read.set()

    with pytest.raises(CustomerGone):
        await relayed.finish()

    assert relayed.attempt.delivered == []


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (event(delta("a")) + DONE, "stream_truncated"),
        (event(delta("a", reason="stop")), "stream_truncated"),
        (event(ROLE), "stream_truncated"),
        (DONE, "stream_truncated"),
        (event(delta("a", reason="stop")) + DONE + event(delta("b")), "event_after_done"),
        (event(ROLE) * 70, "stream_without_text"),
        (event(delta("", reason=None)) * 600, "stream_too_long"),
        (event({"error": {"message": "x"}}), "engine_error"),
        (b"data: nonsense\n\n", "answer_not_json"),
        (event(delta("a", index=3)), "choice_index"),
    ],
)
async def test_streams_that_break_the_rules(wire: bytes, code: str) -> None:
    relayed = await _begun()
    relayed.write(wire)
    relayed.end()

    failure = await _failure(relayed)

    assert (failure.outcome, failure.code) == ("node_fault", code)


async def test_more_text_than_was_asked_for() -> None:
    relayed = await _begun(max_tokens=5)
    wire = b"".join(event(delta("word ")) for _ in range(5 + 256 + 1))
    relayed.write(wire[:200_000])

    assert (await _failure(relayed)).code == "stream_too_long"


async def test_an_ending_without_text_is_kept_for_the_customer() -> None:
    relayed = await _begun()
    relayed.write(event(ROLE) + event(delta("", reason="stop")) + DONE)
    relayed.end()

    failure = await _failure(relayed)

    assert failure.outcome == "empty"
    assert failure.ending is not None
    assert failure.ending.pieces[-1][0]["finish_reason"] == "stop"
    assert relayed.customer.status is None


@pytest.mark.parametrize(
    ("kind", "payload", "code"),
    [
        (frames.DATA, b"x", "body_before_head"),
        (frames.END, b"{}", "body_before_head"),
        (frames.HEAD, b"nonsense", "frame_not_json"),
        (frames.HEAD, b'{"status": "200"}', "head_without_status"),
        (frames.FAIL, b'{"code": "engine_died"}', "engine_died"),
        (frames.FAIL, b'{"code": "<script>"}', "agent_failed"),
        (frames.FAIL, b"", "frame_not_json"),
    ],
)
async def test_frames_out_of_order(kind: int, payload: bytes, code: str) -> None:
    relayed = await Relayed(stream=True).begin()
    relayed.frame(kind, payload)

    assert (await _failure(relayed)).code == code


async def test_a_second_head() -> None:
    relayed = await _begun()
    relayed.head()

    assert (await _failure(relayed)).code == "second_head"


async def test_comments_and_crumbs_are_no_progress() -> None:
    relayed = await Relayed(stream=True, first_token_timeout_s=5, pace=Pace(keep_alive_s=5, idle_s=0.15)).begin()
    relayed.head()
    relayed.event(delta("Hello"))

    async def drip() -> None:
        while True:
            relayed.write(b": still here\n\n")
            relayed.write(b"d")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    failure = await _failure(relayed)
    dripping.cancel()

    assert (failure.code, failure.rule) == ("timeout_idle", "node_silent")
    assert relayed.attempt.delivered == ["Hello"]


async def test_empty_deltas_end_at_the_slowest_speed_that_is_accepted() -> None:
    pace = Pace(keep_alive_s=5, idle_s=5, slowest_tokens_per_s=100)
    relayed = await Relayed(stream=True, max_tokens=10, first_token_timeout_s=0.1, pace=pace).begin()
    relayed.head()
    relayed.event(delta("Hello"))

    async def drip() -> None:
        while True:
            relayed.event(delta(""))
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    failure = await _failure(relayed)
    dripping.cancel()

    assert (failure.outcome, failure.code, failure.rule) == ("node_timeout", "timeout_total", "answer_too_slow")
    assert "timeout_total" in failure.for_customer().message


async def test_the_time_a_slow_customer_takes_is_not_the_nodes() -> None:
    pace = Pace(keep_alive_s=5, idle_s=5, slowest_tokens_per_s=100)
    relayed = await Relayed(stream=True, max_tokens=10, first_token_timeout_s=0.1, pace=pace).begin()
    relayed.head()
    relayed.customer.may_read.clear()
    relayed.event(delta("Hello"))
    await asyncio.sleep(0.4)  # twice what the whole answer may take
    relayed.customer.may_read.set()
    await relayed.until(lambda: "Hello" in relayed.customer.text)

    relayed.event(delta(" world", reason="stop"))
    relayed.write(DONE)
    relayed.end()
    await relayed.finish()

    assert relayed.customer.exchange.waited_s >= 0.3
    assert relayed.attempt.delivered == ["Hello", " world"]


# litellm#34374, #37322, #9551; nicolerenee/infra#2078
async def test_keep_alive_counts_from_when_the_customer_came_and_what_he_heard_last() -> None:
    pace = Pace(keep_alive_s=0.1, idle_s=5)
    relayed = await Relayed(stream=True, first_token_timeout_s=5, pace=pace).begin()
    relayed.head()

    async def drip() -> None:
        while True:
            relayed.write(b":\n\n")
            await asyncio.sleep(0.01)

    dripping = asyncio.create_task(drip())
    await relayed.until(lambda: relayed.customer.text.count(": ping\n") == 2)
    dripping.cancel()

    assert relayed.customer.text == ": ping\n: ping\n"
    relayed.task.cancel()


# nicolerenee/infra#2078: a healthy stream is cut by no total of ours
async def test_a_stream_that_goes_on_outlives_every_idle_limit() -> None:
    pace = Pace(keep_alive_s=5, idle_s=0.1, slowest_tokens_per_s=4)
    relayed = await Relayed(stream=True, max_tokens=100, first_token_timeout_s=0.1, pace=pace).begin()
    relayed.head()
    for _ in range(12):
        relayed.event(delta("x"))
        await asyncio.sleep(0.03)
    relayed.event(delta("", reason="stop"))
    relayed.write(DONE)
    relayed.end()

    await relayed.finish()

    assert relayed.attempt.delivered == ["x"] * 12


async def test_frames_that_carry_next_to_nothing() -> None:
    relayed = await _begun()
    relayed.event(delta("Hello"))

    async def drip() -> None:
        for _ in range(2):
            for _ in range(2_500):
                relayed.write(b":")
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    failure = await _failure(relayed)
    dripping.cancel()

    assert (failure.code, failure.rule) == ("frames_too_small", "frames_too_small")


@pytest.mark.parametrize(
    "said", ["", "application/json", "text/html", "text/event-stream\r\nx: y", "text/event-streams"]
)
async def test_a_stream_has_the_type_of_streams(said: str) -> None:
    relayed = await Relayed(stream=True).begin()
    relayed.head(content_type=said)
    relayed.event(delta("Hello"))

    failure = await _failure(relayed)

    assert failure.code == "content_type_wrong"
    assert failure.facts == {"said": said[:100], "expected": "text/event-stream"}


async def test_a_compressed_answer_is_not_read() -> None:
    relayed = await Relayed(stream=True).begin()
    relayed.head(content_encoding="gzip")

    assert (await _failure(relayed)).code == "content_type_wrong"
