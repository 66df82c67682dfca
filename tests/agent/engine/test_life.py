"""A node's whole life with the simulated engine: join, serve, drain, die, freeze, restart, leave."""

import asyncio
import os
import signal
from dataclasses import replace

from poolhouse_agent.state import State, Wish

from tests.agent.conftest import join, running_agent
from tests.agent.engine.machine import LONG, SHORT, Machine, is_alive
from tests.fakes.pool import Pool, Tunnel


def state_of(tunnel: Tunnel) -> str:
    return str(tunnel.statuses[-1][0]["state"]) if tunnel.statuses[-1] else ""


async def begin(tunnel: Tunnel) -> int:
    stream = await tunnel.begin(LONG)
    await tunnel.until(lambda: tunnel.answers[stream].body)
    return stream


async def test_a_nodes_life(pool: Pool, state: State, machine: Machine) -> None:
    kept = replace(machine.config, keep_engines=True)
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")

    async with running_agent(state, config=kept):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        await drains_without_dropping(state, tunnel)
        await comes_back_after_a_kill(machine, tunnel)
        await comes_back_when_no_token_moves(machine, tunnel)
        engine, worker = machine.note()["pid"], machine.worker()

    assert is_alive(engine)
    async with running_agent(state, config=kept):
        tunnel = await pool.tunnel(1)
        await tunnel.until_ready()
        adopted, answer = machine.note()["pid"], await tunnel.ask(SHORT)
        state.store_wish(Wish.LEAVE)
        async with asyncio.timeout(20):
            while state.membership() is not None or is_alive(engine) or is_alive(worker):
                await asyncio.sleep(0.02)

    assert (adopted, answer.failure) == (engine, None)
    assert pool.heartbeats[-1]["wish"] == "leave"


async def drains_without_dropping(state: State, tunnel: Tunnel) -> None:
    stream = await begin(tunnel)

    state.store_wish(Wish.DRAIN)
    await tunnel.until(lambda: state_of(tunnel) == "draining")
    refused, answer = await tunnel.ask(SHORT), await tunnel.finish(stream)
    state.store_wish(Wish.SERVE)
    await tunnel.until_ready()

    assert refused.failure["code"] == "draining"
    assert answer.failure is None
    assert answer.events[-1] == "[DONE]"


async def comes_back_after_a_kill(machine: Machine, tunnel: Tunnel) -> None:
    first, orphan, stream = machine.note()["pid"], machine.worker(), await begin(tunnel)

    os.kill(first, signal.SIGKILL)
    broken = await tunnel.finish(stream)
    await tunnel.until(lambda: state_of(tunnel) in {"failed", "starting"})
    await tunnel.until_ready()

    assert broken.failure["code"] == "engine_died"
    assert machine.note()["pid"] != first
    assert not is_alive(orphan)
    assert (await tunnel.ask(SHORT)).failure is None


async def comes_back_when_no_token_moves(machine: Machine, tunnel: Tunnel) -> None:
    """The server answers /health and /metrics, and no token comes: what a frozen worker looks like."""
    behaviour, orphan = machine.folders["0.32.0"] / "behaviour", machine.worker()
    behaviour.write_text("stalls", encoding="ascii")
    stream = await tunnel.begin(LONG)

    await tunnel.until(lambda: any(entry["state"] == "stuck" for status in tunnel.statuses for entry in status))
    broken = await tunnel.finish(stream)
    behaviour.unlink()
    await tunnel.until_ready()

    assert broken.failure["code"] == "engine_died"
    assert not is_alive(orphan)
