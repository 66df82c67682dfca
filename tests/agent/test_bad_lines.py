"""The tunnel over the lines that owners have: slow, lossy, dead without a word."""

import asyncio
import contextlib
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from poolhouse_agent.runtime import Agent
from poolhouse_agent.state import State
from poolhouse_agent.tunnel.terms import USUAL

from tests.agent.conftest import join, running_agent
from tests.fakes import lossy_network
from tests.fakes.authority import Authority
from tests.fakes.bad_line import BadLine
from tests.fakes.lossy_network import LossyNetwork
from tests.fakes.pool import WINDOW, Pool, Tunnel, desired, running_pool

MANY = {"messages": [{"role": "user", "content": "write 120 words"}], "stream": True}
BULK = {"messages": [{"role": "user", "content": "write 2000 words"}], "stream": True, "max_tokens": 1200}
SHORT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
STREAMS = 24


@contextlib.asynccontextmanager
async def behind(pool: Pool, **line: float) -> AsyncIterator[BadLine]:
    """Put a line before the pool; agents know the pool by the line's address."""
    bad = BadLine(urlsplit(pool.server).port or 0, **line)  # type: ignore[arg-type]  # every option is a number
    async with bad.open():
        pool.server = f"http://127.0.0.1:{bad.port}"
        yield bad


def impatient(state: State, *, ping_s: float) -> AbstractAsyncContextManager[Agent]:
    """Run an agent whose tunnel looks after its line more often than usual."""
    return running_agent(state, terms=replace(USUAL, ping_s=ping_s))


async def all_come_whole(tunnel: Tunnel, pool: Pool) -> None:
    """Run many streams beside a long one; each ends as it should, and nobody waits for the long one."""
    await tunnel.until_ready()
    bulk = await tunnel.begin(BULK)
    await tunnel.send(WINDOW, bulk, (10_000_000).to_bytes(4, "big"))
    streams = [await tunnel.begin(MANY) for _ in range(STREAMS)]
    answers = await asyncio.gather(*(tunnel.finish(stream) for stream in streams))
    was_bulk_running = not tunnel.answers[bulk].is_ended
    await tunnel.finish(bulk)

    assert [answer.failure for answer in answers] == [None] * STREAMS
    assert {answer.events[-1] for answer in answers} == {"[DONE]"}
    assert all(len(answer.text.split()) >= 100 for answer in answers)
    assert was_bulk_running
    assert tunnel.answers[bulk].events[-1] == "[DONE]"
    assert len(pool.tunnels) == 1


async def test_streams_come_whole_through_a_slow_and_lossy_line(pool: Pool, state: State) -> None:
    pool.desired = [desired(max_concurrency=32, settings={"tokens_per_second": 400})]
    async with behind(pool, delay_s=0.05, loss=0.01) as line:
        await join(pool, state)
        async with impatient(state, ping_s=20.0):
            await all_come_whole(await pool.tunnel(), pool)

    assert line.lost > 0


@pytest.mark.skipif(bool(lossy_network.missing()), reason=lossy_network.missing())
async def test_streams_come_whole_over_a_network_with_50_ms_and_one_percent_loss(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    with LossyNetwork(delay_s=0.05, loss=0.01) as network:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*authority.issue("pool", network.here))
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        async with running_pool(host=network.here, tls=tls) as pool:
            pool.desired = [desired(max_concurrency=32, settings={"tokens_per_second": 400})]
            await join(pool, state)
            async with agent_process(network.inside, state, log=tmp_path / "agent.log"):
                await all_come_whole(await pool.tunnel(), pool)

    assert network.lost > 0
    assert network.carried > 100 * network.lost / 3


async def test_a_line_that_went_dead_without_a_word_is_noticed(pool: Pool, state: State) -> None:
    async with behind(pool) as line:
        await join(pool, state)
        async with impatient(state, ping_s=0.4) as agent:
            tunnel = await pool.tunnel()
            await tunnel.until_ready()

            line.die()
            async with asyncio.timeout(20):
                while agent.tunnel.is_connected:
                    await asyncio.sleep(0.02)
            line.heal()
            again = await pool.tunnel(after=1)
            answer = await again.ask(SHORT)

    assert answer.failure is None
    assert again.generation == tunnel.generation


async def test_a_dead_line_is_noticed_while_an_answer_is_stuck_in_it(pool: Pool, state: State) -> None:
    pool.desired = [desired(settings={"tokens_per_second": 20_000})]
    async with behind(pool) as line:
        await join(pool, state)
        async with impatient(state, ping_s=0.4) as agent:
            tunnel = await pool.tunnel()
            await tunnel.until_ready()
            stream = await tunnel.begin(BULK | {"max_tokens": 3500})
            await tunnel.send(WINDOW, stream, (10_000_000).to_bytes(4, "big"))
            await tunnel.until(lambda: bool(tunnel.answers[stream].body))

            line.die()
            async with asyncio.timeout(20):
                while agent.tunnel.is_connected or agent.deployments.running:
                    await asyncio.sleep(0.02)
            was_stuck = not tunnel.answers[stream].is_ended
            line.heal()
            again = await pool.tunnel(after=1)
            answer = await again.ask(SHORT)

    assert answer.failure is None
    assert was_stuck


@contextlib.asynccontextmanager
async def agent_process(
    inside: Callable[[list[str]], list[str]], state: State, *, log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the agent as its owner does, where `inside` puts it."""
    (state.folder / "agent.toml").touch()
    where = ["--config", str(state.folder / "agent.toml"), "--state", str(state.folder)]
    argv = inside([sys.executable, "-m", "poolhouse_agent", *where, "run"])
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=output, stderr=output, env={**os.environ, "PYTHONPATH": str(Path.cwd() / "agent")}
        )
    try:
        yield process
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 20)
