"""Streams share one tunnel: windows hold them back, CANCEL ends them, draining refuses them."""

import asyncio

import aiohttp
from poolhouse_agent.engine import metrics
from poolhouse_agent.runtime import Agent
from poolhouse_agent.state import State, Wish

from tests.fakes.pool import CANCEL, WINDOW, Pool, desired

LONG = {"messages": [{"role": "user", "content": "write 4000 words"}], "stream": True, "max_tokens": 3500}
SHORT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
WINDOW_BYTES = 262_144


async def test_no_more_is_sent_than_the_window_allows(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    stream = await tunnel.begin(LONG)
    answer = tunnel.answers[stream]
    await tunnel.until(lambda: len(answer.body) == WINDOW_BYTES)
    await asyncio.sleep(0.5)
    assert len(answer.body) == WINDOW_BYTES

    await tunnel.send(WINDOW, stream, (1000).to_bytes(4, "big"))
    await tunnel.until(lambda: len(answer.body) == WINDOW_BYTES + 1000)

    await tunnel.send(WINDOW, stream, (10_000_000).to_bytes(4, "big"))
    await tunnel.finish(stream)
    assert answer.failure is None
    assert answer.events[-1] == "[DONE]"


async def test_a_held_back_stream_does_not_hold_up_another(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    stream = await tunnel.begin(LONG)
    await tunnel.until(lambda: len(tunnel.answers[stream].body) == WINDOW_BYTES)

    answer = await tunnel.ask(SHORT, 5.0)

    assert answer.head["status"] == 200
    assert not tunnel.answers[stream].is_ended


async def test_cancel_ends_the_engines_request_within_a_second(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    pool.desired = [desired()]
    stream = await tunnel.begin(LONG)
    await tunnel.until(lambda: len(tunnel.answers[stream].body) > 2000)

    await tunnel.send(CANCEL, stream)
    answer = await tunnel.finish(stream, 1.0)

    assert answer.failure["code"] == "canceled"
    target = serving.deployments.route("acme/demo")
    async with aiohttp.ClientSession() as http, asyncio.timeout(1.0):
        while (await metrics.read(http, target)).running:
            await asyncio.sleep(0.02)
        before = (await metrics.read(http, target)).counters
        await asyncio.sleep(0.2)
        assert (await metrics.read(http, target)).counters == before
    assert before["generation_tokens_total"] < 3500


async def test_cancel_of_a_stream_that_has_just_ended_is_no_error(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    stream = await tunnel.begin(SHORT)
    await tunnel.finish(stream)

    await tunnel.send(CANCEL, stream)
    await tunnel.send(WINDOW, stream, (5).to_bytes(4, "big"))

    assert (await tunnel.ask(SHORT)).failure is None
    assert len(tunnel.answers[stream].frames) == 3  # HEAD, DATA, END and nothing after


async def test_many_streams_run_at_once_and_too_many_are_refused(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    body = {"messages": [{"role": "user", "content": "write 30 words"}], "stream": True}

    streams = [await tunnel.begin(body) for _ in range(20)]
    answers = await asyncio.gather(*(tunnel.finish(stream) for stream in streams))

    failures = [answer.failure["code"] for answer in answers if answer.failure]
    assert failures == ["too_many_streams"] * 4  # twice the deployment's eight run
    assert all(answer.events[-1] == "[DONE]" for answer in answers if not answer.failure)


async def test_an_unknown_model_is_refused(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    answer = await tunnel.ask(SHORT, model="acme/other")

    assert answer.failure["code"] == "model_not_running"
    assert answer.head is None


async def test_a_draining_node_ends_what_runs_and_takes_nothing_new(pool: Pool, serving: Agent, state: State) -> None:
    tunnel = await pool.tunnel()
    stream = await tunnel.begin({"messages": [{"role": "user", "content": "write 300 words"}], "stream": True})
    await tunnel.until(lambda: bool(tunnel.answers[stream].body))

    state.store_wish(Wish.DRAIN)
    await tunnel.until(lambda: tunnel.statuses[-1][0]["state"] == "draining")
    refused = await tunnel.ask(SHORT)
    running = await tunnel.finish(stream)
    beat = await pool.heartbeat(lambda beat: beat["wish"] == "drain")

    assert refused.failure["code"] == "draining"
    assert running.failure is None
    assert beat["deployments"][0]["state"] == "draining"

    state.store_wish(Wish.SERVE)
    await tunnel.until_ready()
    assert (await tunnel.ask(SHORT)).failure is None
