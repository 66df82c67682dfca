"""Engines outlive the agent: the next one adopts what fits, ends what does not, and serves before the portal speaks."""

import asyncio
import contextlib
import json
from dataclasses import replace
from pathlib import Path

from poolhouse_agent.config import Config
from poolhouse_agent.runtime import Agent
from poolhouse_agent.state import State

from tests.agent.conftest import join, running_agent
from tests.agent.engine.machine import LONG, MODEL, SHORT, Machine, is_alive
from tests.fakes.pool import Pool


def kept(config: Config) -> Config:
    """The owner wants engines to go on when the agent stops."""
    return replace(config, keep_engines=True)


async def test_an_adopted_engine_serves_before_the_portal_has_spoken(
    pool: Pool, state: State, machine: Machine
) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=kept(machine.config)):
        await (await pool.tunnel()).until_ready()
    pool.refuse["heartbeat"] = (503, "unavailable")

    async with running_agent(state, config=machine.config):
        tunnel = await pool.tunnel(1)
        await tunnel.until_ready()
        answer = await tunnel.ask(SHORT)

    assert answer.failure is None


async def test_a_stopped_agent_lets_its_streams_end_first(pool: Pool, state: State, machine: Machine) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=kept(machine.config)):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        stream = await tunnel.begin(LONG)
        await tunnel.until(lambda: tunnel.answers[stream].body)
    answer = tunnel.answers[stream]

    assert answer.failure is None
    assert answer.events[-1] == "[DONE]"
    await end_engines(state, machine)


async def test_an_engine_of_another_making_is_replaced(pool: Pool, state: State, machine: Machine) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=kept(machine.config)):
        await (await pool.tunnel()).until_ready()
        first = machine.note()["pid"]

    changed = replace(machine.config, engine_environment={"NCCL_P2P_DISABLE": "1"})
    async with running_agent(state, config=changed):
        await (await pool.tunnel(1)).until_ready()
        second = machine.note()["pid"]

    assert second != first
    assert not is_alive(first)
    assert machine.started()["environ"]["NCCL_P2P_DISABLE"] == "1"


async def test_what_the_pool_wants_no_more_is_ended(pool: Pool, state: State, machine: Machine) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=kept(machine.config)):
        await (await pool.tunnel()).until_ready()
        first, worker = machine.note()["pid"], machine.worker()
    pool.desired = []

    async with running_agent(state, config=kept(machine.config)) as agent:
        await gone(state, first, worker)
        async with asyncio.timeout(10):
            while agent.deployments.reports():
                await asyncio.sleep(0.02)


async def test_half_a_change_is_tidied_up(pool: Pool, state: State, machine: Machine) -> None:
    """An agent that died while a second engine started: the older one is adopted, the other one ends."""
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=kept(machine.config)):
        await (await pool.tunnel()).until_ready()
    first = machine.note()
    second = await asyncio.create_subprocess_exec(
        "sleep", "600", start_new_session=True, env={"POOLHOUSE_ENGINE_MARK": "x"}
    )
    folder = state.engines / "dep_1-b"
    folder.mkdir()
    started = ticks(second.pid)
    written = {**first, "pid": second.pid, "host": second.pid, "mark": "x", "started": started, "host_started": started}
    (folder / "process.json").write_text(json.dumps(written), encoding="utf-8")

    async with running_agent(state, config=machine.config):
        await (await pool.tunnel(1)).until_ready()
        adopted = machine.note()["pid"]
        async with asyncio.timeout(10):
            assert await second.wait() != 0

    assert adopted == first["pid"]
    assert not (folder / "process.json").exists()


async def gone(state: State, *pids: int) -> None:
    """The processes have ended, and nothing names them any more."""
    async with asyncio.timeout(20):
        while any(map(is_alive, pids)) or (state.engines / "dep_1" / "process.json").exists():
            await asyncio.sleep(0.02)


def ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])


async def end_engines(state: State, machine: Machine) -> None:
    """Through a third agent that keeps nothing."""
    pid = machine.note()["pid"]
    with contextlib.suppress(asyncio.CancelledError):
        async with running_agent(state, config=machine.config) as agent:
            await settled(agent)
    assert not is_alive(pid)


async def settled(agent: Agent) -> None:
    async with asyncio.timeout(20):
        while not any(report.state == "ready" for report in agent.deployments.reports()):
            await asyncio.sleep(0.02)
    assert agent.deployments.route(MODEL).served_name == MODEL
