"""Upgrades and changes: no stream is dropped, a version that does not work gives way to the one that did."""

import asyncio
import os
import signal
from typing import Any

import pytest
from poolhouse_agent.engine import room
from poolhouse_agent.state import State

from tests.agent.conftest import join, running_agent
from tests.agent.engine.machine import LONG, SHORT, Machine, is_alive
from tests.fakes.pool import Pool, Tunnel

OLD, NEW = "0.32.0", "0.33.0"


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose memory is full: the kernel's figures say so."""

    def available() -> int:
        return 0

    monkeypatch.setattr(room, "_available_bytes", available)


async def until_version(pool: Pool, version: str) -> dict[str, Any]:
    beat = await pool.heartbeat(
        lambda beat: (
            beat["deployments"]
            and beat["deployments"][0]["facts"].get("engine_version") == version
            and beat["deployments"][0]["state"] == "ready"
        )
    )
    return beat["deployments"][0]


def states_since(tunnel: Tunnel, seen: int) -> list[str]:
    """What the gateway was told from the last known status on."""
    return [entry["state"] for status in tunnel.statuses[seen - 1 :] for entry in status]


async def begin_long(tunnel: Tunnel) -> int:
    stream = await tunnel.begin(LONG)
    await tunnel.until(lambda: tunnel.answers[stream].body)
    return stream


async def test_where_memory_allows_the_new_version_is_ready_before_the_old_one_goes(
    pool: Pool, state: State, machine: Machine
) -> None:
    pool.desired = [machine.wanted(OLD)]
    await join(pool, state, simulate="")
    async with running_agent(state, config=machine.config):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        stream = await begin_long(tunnel)
        old, seen = machine.note()["pid"], len(tunnel.statuses)
        pool.desired = [machine.wanted(NEW)]
        await until_version(pool, NEW)
        answer, after = await tunnel.finish(stream), await tunnel.ask(SHORT)
        async with asyncio.timeout(10):
            while is_alive(old) or is_alive(machine.worker(OLD)):
                await asyncio.sleep(0.02)
        states = states_since(tunnel, seen)

    assert answer.failure is None
    assert answer.events[-1] == "[DONE]"
    assert after.failure is None
    assert set(states) == {"ready"}
    assert not is_alive(machine.worker(NEW))


async def test_where_it_does_not_the_old_one_is_drained_first(
    pool: Pool, state: State, machine: Machine, crowded: None
) -> None:
    pool.desired = [machine.wanted(OLD)]
    await join(pool, state, simulate="")
    async with running_agent(state, config=machine.config):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        stream, seen = await begin_long(tunnel), len(tunnel.statuses)
        old = machine.note()["pid"]
        pool.desired = [machine.wanted(NEW)]
        await tunnel.until(lambda: tunnel.statuses[-1][0]["state"] == "draining")
        refused, alive_meanwhile = await tunnel.ask(SHORT), is_alive(old)
        answer = await tunnel.finish(stream)
        await until_version(pool, NEW)
        after, states = await tunnel.ask(SHORT), states_since(tunnel, seen)

    assert alive_meanwhile
    assert refused.failure["code"] == "draining"
    assert answer.failure is None
    assert answer.events[-1] == "[DONE]"
    assert [state for state in states if state != "ready"][:2] == ["draining", "starting"]
    assert after.failure is None


@pytest.mark.parametrize("is_crowded", [False, True])
async def test_a_version_that_does_not_become_ready_is_rolled_back(
    pool: Pool, state: State, machine: Machine, request: pytest.FixtureRequest, is_crowded: bool
) -> None:
    if is_crowded:
        request.getfixturevalue("crowded")
    machine.break_version(NEW, "RuntimeError: this version cannot do it")
    pool.desired = [machine.wanted(OLD)]
    await join(pool, state, simulate="")
    async with running_agent(state, config=machine.config):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        old = machine.note()["pid"]
        pool.desired = [machine.wanted(NEW)]
        beat = await pool.heartbeat(lambda beat: beat["deployments"][0]["code"] == "engine_change_rolled_back")
        report, pid, tries = beat["deployments"][0], machine.note()["pid"], len(machine.starts(NEW))
        answer = await tunnel.ask(SHORT)
        os.kill(pid, signal.SIGKILL)
        await tunnel.until(lambda: tunnel.statuses[-1][0]["state"] != "ready")
        await tunnel.until_ready()

    assert (report["state"], report["facts"]["engine_version"]) == ("ready", OLD)
    assert NEW in report["detail"]
    assert "cannot do it" in report["detail"]
    assert (pid == old) is not is_crowded
    assert answer.failure is None
    assert tries == len(machine.starts(NEW)) == 1  # the crash afterwards does not bring it back


async def test_another_context_replaces_the_engine_without_a_gap(pool: Pool, state: State, machine: Machine) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=machine.config):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        seen, first = len(tunnel.statuses), machine.note()["pid"]
        pool.desired = [machine.wanted(context_tokens=2048)]
        async with asyncio.timeout(20):
            while is_alive(first):
                await asyncio.sleep(0.02)
        argv = machine.started()["argv"]
        answer, states = await tunnel.ask(SHORT), states_since(tunnel, seen)

    assert argv[argv.index("--max-model-len") + 1] == "2048"
    assert set(states) == {"ready"}
    assert answer.failure is None


async def test_a_wish_that_changes_while_the_engine_starts_takes_effect_at_once(
    pool: Pool, state: State, machine: Machine
) -> None:
    (machine.folders[OLD] / "wait").touch()
    pool.desired = [machine.wanted(OLD)]
    await join(pool, state, simulate="")
    async with running_agent(state, config=machine.config):
        tunnel = await pool.tunnel()
        async with asyncio.timeout(20):
            while not (machine.folders[OLD] / "started.json").exists():
                await asyncio.sleep(0.02)
        pool.desired = [machine.wanted(NEW)]
        await tunnel.until_ready()
        report = await until_version(pool, NEW)

    assert report["state"] == "ready"
    assert not is_alive(machine.started(OLD)["pid"])
