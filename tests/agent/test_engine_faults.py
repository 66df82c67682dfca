"""What comes through the tunnel when the engine is broken or lies: a code, never a hang, never a dead agent."""

import asyncio
from collections.abc import Callable

import pytest
from poolhouse_agent.runtime import Agent

from tests.fakes.pool import Pool

QUESTION = [{"role": "user", "content": "write 60 words"}]
STREAM = {"messages": QUESTION, "stream": True, "stream_options": {"include_usage": True}}
SHORT = {"messages": QUESTION, "max_tokens": 3}
Behave = Callable[[str], None]


async def test_a_connection_that_breaks_is_a_dead_engine(pool: Pool, serving: Agent, behave: Behave) -> None:
    tunnel = await pool.tunnel()
    behave("breaks")

    answer = await tunnel.ask(STREAM)

    assert answer.failure["code"] == "engine_died"
    assert answer.head["status"] == 200
    assert "[DONE]" not in answer.events


async def test_an_engine_that_dies_fails_its_streams_and_is_started_again(
    pool: Pool, serving: Agent, behave: Behave
) -> None:
    tunnel = await pool.tunnel()
    behave("dies")

    answer = await tunnel.ask(STREAM)
    await tunnel.until(lambda: tunnel.statuses[-1][0]["state"] in {"failed", "starting"})
    behave("honest")
    await tunnel.until_ready()

    assert answer.failure["code"] == "engine_died"
    assert (await tunnel.ask(SHORT)).failure is None


async def test_a_line_of_a_gigabyte_ends_the_stream_early(pool: Pool, serving: Agent, behave: Behave) -> None:
    tunnel = await pool.tunnel()
    behave("giant-line")

    answer = await tunnel.ask(STREAM)

    assert answer.failure["code"] == "engine_protocol"
    assert answer.body == b""
    behave("honest")
    assert (await tunnel.ask(SHORT)).failure is None


@pytest.mark.parametrize("name", ["hangs", "hangs-after-role", "stalls"])
async def test_a_silent_engine_can_be_cancelled(pool: Pool, serving: Agent, behave: Behave, name: str) -> None:
    tunnel = await pool.tunnel()
    behave(name)
    stream = await tunnel.begin(STREAM)
    await asyncio.sleep(0.3)
    assert not tunnel.answers[stream].is_ended

    await tunnel.send(0x02, stream)
    answer = await tunnel.finish(stream, 1.0)

    assert answer.failure["code"] == "canceled"
    assert serving.deployments.running == 0


async def test_a_stuck_engine_is_noticed_by_its_counters_and_restarted(
    pool: Pool, serving: Agent, behave: Behave
) -> None:
    tunnel = await pool.tunnel()
    behave("stalls")
    stream = await tunnel.begin(STREAM)

    await tunnel.until(lambda: any(entry["state"] == "stuck" for status in tunnel.statuses for entry in status))
    answer = await tunnel.finish(stream)
    behave("honest")
    await tunnel.until_ready()

    assert answer.failure["code"] == "engine_died"
    assert (await tunnel.ask(SHORT)).failure is None


async def test_a_redirect_is_not_followed(pool: Pool, serving: Agent, behave: Behave) -> None:
    tunnel = await pool.tunnel()
    behave("redirects")

    answer = await tunnel.ask(STREAM)

    assert answer.failure["code"] == "engine_protocol"
    assert answer.head is None


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("refuses", 503, b"currently busy"),
        ("fails", 500, b"InternalServerError"),
        ("unauthorized", 401, b'"Unauthorized"'),
        ("html", 200, b"<script>"),
        ("garbage", 200, bytes(range(256))),
    ],
)
async def test_answers_that_are_none_travel_unchanged(
    pool: Pool, serving: Agent, behave: Behave, name: str, status: int, said: bytes
) -> None:
    tunnel = await pool.tunnel()
    behave(name)

    answer = await tunnel.ask(STREAM)

    assert answer.failure is None
    assert answer.head["status"] == status
    assert said in answer.body


async def test_broken_events_travel_unchanged(pool: Pool, serving: Agent, behave: Behave) -> None:
    tunnel = await pool.tunnel()
    behave("garbage-events")

    answer = await tunnel.ask(STREAM)

    assert answer.failure is None
    assert answer.body.startswith(b"data: {not json\n\n")
    assert b"\xff\xfe" in answer.body


async def test_an_error_in_the_stream_looks_like_vllms(pool: Pool, serving: Agent, behave: Behave) -> None:
    tunnel = await pool.tunnel()
    behave("error-in-stream")

    answer = await tunnel.ask(STREAM)

    assert answer.events[-2]["error"]["code"] == 500
    assert answer.events[-1] == "[DONE]"


async def test_an_endless_stream_goes_on_until_it_is_cancelled(pool: Pool, serving: Agent, behave: Behave) -> None:
    tunnel = await pool.tunnel()
    behave("endless")
    stream = await tunnel.begin({**STREAM, "max_tokens": 5})

    await tunnel.until(lambda: tunnel.answers[stream].body.count(b"data: ") > 100)
    await tunnel.send(0x02, stream)

    assert (await tunnel.finish(stream, 1.0)).failure["code"] == "canceled"


@pytest.mark.parametrize(
    ("name", "completion"),
    [
        ("inflate-3", 36),
        ("usage-text", "12"),
        ("usage-negative", -12),
        ("usage-fraction", 12.5),
        ("usage-huge", 10**30),
    ],
)
async def test_a_cheat_claims_what_it_did_not_do(
    pool: Pool, serving: Agent, behave: Behave, name: str, completion: object
) -> None:
    tunnel = await pool.tunnel()
    behave(name)

    answer = await tunnel.ask({**STREAM, "max_tokens": 12})

    assert answer.events[-2]["usage"]["completion_tokens"] == completion


async def test_an_empty_answer_has_an_end_token_and_no_text(pool: Pool, serving: Agent, behave: Behave) -> None:
    tunnel = await pool.tunnel()
    behave("empty")

    answer = await tunnel.ask(STREAM)

    assert answer.text == ""
    assert answer.events[-2]["usage"]["completion_tokens"] == 1
