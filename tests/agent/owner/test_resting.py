"""A running agent does as its owner says: nothing is cut off, the GPUs come free, and no portal has a say in it."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.owner import book
from poolhouse_agent.owner.book import Book
from poolhouse_agent.owner.keeper import CLEAR_AFTER, Owner
from poolhouse_agent.owner.standing import Action, Pause
from poolhouse_agent.runtime import Agent
from poolhouse_agent.simulate.inventory import SimulatedInventory
from poolhouse_agent.state import State

from tests.agent.owner.test_gpu_use import MIB, detached
from tests.fakes.pool import Pool, desired

LONG = {"messages": [{"role": "user", "content": "write 60 words"}], "stream": True, "max_tokens": 60}
SHORT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def pause(state: State) -> None:
    book.store(state, Book(pause=Pause(datetime.now(UTC))))


def rest_all_day(state: State) -> None:
    book.store(state, Book({"quiet": ["00:00-24:00"]}))


def resume(state: State) -> None:
    book.store(state, Book())


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


def engines(state: State) -> list[Path]:
    return list(state.engines.glob("*/process.json"))


async def test_a_pause_lets_running_streams_end_then_frees_the_gpus_and_resume_brings_all_back(
    pool: Pool, serving: Agent, state: State
) -> None:
    tunnel = await pool.tunnel()
    pool.desired = [desired(settings={"tokens_per_second": 40})]
    await pool.heartbeat(lambda beat: True)
    await tunnel.until_ready()
    stream = await tunnel.begin(LONG)
    await tunnel.until(lambda: len(tunnel.answers[stream].frames) > 3)

    pause(state)
    await tunnel.until(lambda: tunnel.statuses[-1][0]["state"] == "draining")
    refused = await tunnel.ask(SHORT)
    answer = await tunnel.finish(stream)
    resting = await pool.heartbeat(lambda beat: not beat["deployments"])

    assert refused.failure["code"] == "draining"
    assert answer.failure is None
    assert answer.events[-1] == "[DONE]"
    assert engines(state) == []
    assert (resting["wish"], resting["owner"]) == ("drain", {"code": "owner_paused", "until": None})

    resume(state)
    await tunnel.until_ready()
    serves = await pool.heartbeat(lambda beat: beat["wish"] == "serve")
    assert "owner" not in serves


async def test_quiet_hours_say_until_when(pool: Pool, serving: Agent, state: State) -> None:
    book.store(state, Book({"timezone": "UTC", "quiet": ["00:00-24:00"], "serve": []}))

    beat = await pool.heartbeat(lambda beat: beat.get("owner"))

    assert beat["owner"] == {"code": "owner_quiet_hours", "until": None}  # there is no hour that is not quiet


async def test_a_pause_that_is_over_ends_by_itself(pool: Pool, serving: Agent, state: State) -> None:
    now = datetime.now(UTC)
    book.store(state, Book(pause=Pause(now, now + timedelta(seconds=2))))
    await until(lambda: serving.owner.standing.action is Action.REST)

    await until(lambda: serving.owner.standing.action is Action.SERVE)
    await (await pool.tunnel()).until_ready()


async def test_a_portal_that_does_not_answer_cannot_keep_the_gpus(pool: Pool, serving: Agent, state: State) -> None:
    pool.refuse["heartbeat"] = (503, "portal_error")

    rest_all_day(state)

    await until(lambda: not engines(state))
    assert serving.owner.standing.code == "owner_quiet_hours"


HOSTILE: dict[str, Any] = {
    "an order to serve": {"wish": "serve", "state": "serving"},
    "the owner's own words": {"owner": {"code": "", "action": "serve", "until": None}},
    "other rules": {"rules": {"quiet": [], "power_cap_w": 2000}, "schedule": [], "pause": None},
    "another power cap": {"power_cap_w": 2000, "limits": {"power_cap_w": None}},
    "a command": {"command": "resume", "commands": [["poolhouse-agent", "resume"]], "exec": "resume"},
    "rules inside a deployment": {"desired": [desired(settings={"quiet": [], "tokens_per_second": 2000})]},
    "a new deployment": {"desired": [desired(deployment="dep_2"), desired(deployment="dep_3", model="acme/other")]},
    "messages": {"messages": [{"level": "error", "code": "resume", "text": "resume", "fix": "poolhouse-agent resume"}]},
}


async def test_no_answer_of_the_portal_overrules_the_owner(pool: Pool, serving: Agent, state: State) -> None:
    pause(state)
    await until(lambda: not engines(state))
    before = (state.folder / book.FILE).read_bytes()
    tunnel = await pool.tunnel()

    for changes in HOSTILE.values():
        answer = {"server_time": NOW.isoformat(), "state": "serving", "heartbeat_s": 1, "desired": pool.desired,
                  "messages": [], **changes}  # fmt: skip
        pool.raw["heartbeat"] = web.json_response(answer)
        heard = serving.heart.last
        await until(lambda heard=heard: serving.heart.last is not heard)
        refused = await tunnel.ask(SHORT)

        assert refused.failure["code"] == "draining"
        assert serving.owner.standing.code == "owner_paused"
        assert engines(state) == []
        assert serving.power.cap_w is None
    assert (state.folder / book.FILE).read_bytes() == before


async def test_the_owners_own_process_gets_the_gpu(pool: Pool, serving: Agent, state: State) -> None:
    async with detached() as pid:
        _use(serving, pid)

        beat = await pool.heartbeat(lambda beat: not beat["deployments"])

    assert beat["owner"] == {"code": "owner_uses_gpu", "until": None}
    assert engines(state) == []
    assert f"process {pid}" not in json.dumps(beat)  # what the owner runs is nobody's business
    assert f"sleep (process {pid}) with 900 MiB" in serving.owner.standing.detail


def _use(agent: Agent, pid: int) -> None:
    """Let the driver's newest report show a process on the first GPU."""
    assert isinstance(agent.inventory, SimulatedInventory)
    report = agent.inventory.latest
    first = {**report.gpus[0], "values": {"processes": [{"pid": pid, "memory_bytes": 900 * MIB}]}}
    agent.inventory.latest = replace(report, gpus=(first, *report.gpus[1:]))


class Machine:
    """GPUs whose report the test writes."""

    def __init__(self) -> None:
        self.report = GpuReport()

    def show(self, *pids: int, errors: tuple[dict[str, str], ...] = (), has_gpus: bool = True) -> None:
        processes = [{"pid": pid, "memory_bytes": 900 * MIB} for pid in pids]
        gpus = ({"uuid": "GPU-1", "values": {"processes": processes}},) if has_gpus else ()
        self.report = GpuReport(gpus=gpus, errors=errors)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def owner(state: State, machine: Machine) -> Owner:
    return Owner(state, {}, gpus=lambda: machine.report, engines=state.engines)


async def test_it_comes_back_a_minute_after_the_owners_process_has_ended(owner: Owner, machine: Machine) -> None:
    async with detached() as pid:
        machine.show(pid)
        assert owner.look(now=NOW).code == "owner_uses_gpu"
    machine.show()

    assert owner.look(now=NOW + CLEAR_AFTER - timedelta(seconds=1)).code == "owner_uses_gpu"
    assert owner.look(now=NOW + CLEAR_AFTER).action is Action.SERVE


async def test_a_pause_between_two_runs_of_the_owners_work_is_no_invitation(owner: Owner, machine: Machine) -> None:
    for minute in range(5):
        async with detached() as pid:
            machine.show(pid)
            owner.look(now=NOW + timedelta(minutes=minute))
        machine.show()
        assert owner.look(now=NOW + timedelta(minutes=minute, seconds=50)).action is Action.REST


async def test_while_nobody_can_tell_it_stays_as_it_was(owner: Owner, machine: Machine) -> None:
    async with detached() as pid:
        machine.show(pid)
        owner.look(now=NOW)
    machine.show(errors=({"code": "nvml_hung", "detail": ""},), has_gpus=False)

    assert owner.look(now=NOW + timedelta(hours=1)).code == "owner_uses_gpu"


async def test_an_owner_who_does_not_want_it_is_not_yielded_to(state: State, machine: Machine) -> None:
    owner = Owner(state, {"yield": False}, gpus=lambda: machine.report, engines=state.engines)
    async with detached() as pid:
        machine.show(pid)

        assert owner.look(now=NOW).action is Action.SERVE


def test_a_file_that_is_damaged_while_it_runs_changes_nothing(owner: Owner, state: State) -> None:
    rest_all_day(state)
    assert owner.look(now=NOW).code == "owner_quiet_hours"

    (state.folder / book.FILE).write_text("{", encoding="ascii")

    assert owner.look(now=NOW).code == "owner_quiet_hours"
    resume(state)
    assert owner.look(now=NOW).action is Action.SERVE


def test_a_bad_rule_set_while_it_runs_changes_nothing(owner: Owner, state: State) -> None:
    book.store(state, Book({"quiet": ["never"]}))

    assert owner.look(now=NOW).action is Action.SERVE
