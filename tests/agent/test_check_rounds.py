"""A running agent measures itself when the portal asks, and nobody suffers from it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from poolhouse_agent.bell import Bell
from poolhouse_agent.benchmarks import lengths
from poolhouse_agent.benchmarks.suite import Machine
from poolhouse_agent.checks.result import Status, skipped, trouble
from poolhouse_agent.config import Config
from poolhouse_agent.engine.measurable import Measurable
from poolhouse_agent.owner import book
from poolhouse_agent.owner.book import Book
from poolhouse_agent.owner.standing import Pause
from poolhouse_agent.protocol.messages import DeploymentReport
from poolhouse_agent.protocol.rounds import RoundReply, WantedRound
from poolhouse_agent.rounds.keeper import Rounds, worst
from poolhouse_agent.runtime import Agent
from poolhouse_agent.state import State, Wish

from tests.agent.conftest import join, running_agent
from tests.fakes.pool import CANCEL, TIMEOUT_S, Pool


def wanted(**changes: Any) -> dict[str, Any]:
    return {"round": "round_1", "reason": "join", "is_whole": True, **changes}


def results(pool: Pool) -> dict[str, Any]:
    return {f"{one['id']} {one['subject']}".strip(): one for report in pool.reports for one in report["results"]}


async def done(pool: Pool, state: str = "done") -> Any:
    return await pool.report(lambda report: report["state"] == state)


def endings(pool: Pool) -> list[tuple[str, str, str]]:
    """The reports that say how a round ended."""
    reports = [report for report in pool.reports if report["state"] != "running"]
    return [(report["round"], report["state"], report["code"]) for report in reports]


@contextlib.asynccontextmanager
async def halfway(pool: Pool, state: State) -> AsyncIterator[Agent]:
    """Run an agent whose round has measured the GPUs and waits for the portal's echo."""
    pool.desired = []
    pool.check_round = wanted()
    pool.echoes.clear()
    await join(pool, state)
    async with running_agent(state) as agent:
        async with asyncio.timeout(TIMEOUT_S):
            await pool.echo_came.wait()
        yield agent


async def test_gpus_are_measured_before_the_first_engine_starts(pool: Pool, state: State) -> None:
    pool.check_round = wanted()
    await join(pool, state)

    async with running_agent(state) as agent:
        await done(pool)
        gpus = [gpu["uuid"] for gpu in agent.inventory.latest.gpus]
        await (await pool.tunnel()).until_ready()

    measured = results(pool)
    first = next(report for report in pool.reports if report["results"] and report["percent"] > 0)
    assert first["doing"] == "1/15 CUDA starts"
    for uuid in gpus:
        assert 150_000 < measured[f"gpu.matmul.bf16 {uuid}"]["figure_milli"] < 180_000
        assert measured[f"gpu.vram {uuid}"]["status"] == "ok"
        assert measured[f"gpu.soak {uuid}"]["evidence"]["gpu"] == "NVIDIA GeForce RTX 4090"
    assert measured["gpu.all_reduce"]["status"] == "ok"
    assert measured["disk.write"]["figure_milli"] > 0
    assert measured["network.upload"]["figure_milli"] > 0
    assert measured["system"]["version"] == 1
    assert [report["state"] for report in pool.reports].count("done") == 1
    assert max(len(report["results"]) for report in pool.reports) <= 64


async def test_while_an_engine_runs_gpus_are_left_alone_and_the_model_is_measured(serving: Agent, pool: Pool) -> None:
    pool.check_round = wanted(reason="schedule", is_whole=False)

    await done(pool)

    measured = results(pool)
    assert (measured["gpu.matmul.bf16"]["status"], measured["gpu.matmul.bf16"]["code"]) == ("skip", "gpu_busy")
    assert measured["engine.smoke acme/demo"]["status"] == "ok"
    assert measured["engine.concurrency acme/demo"]["figure_milli"] >= 1_000
    assert len(measured["engine.first_token acme/demo"]["evidence"]["table"]) >= 1
    assert serving.deployments.reports()[0].state == "ready"


async def test_what_a_benchmark_costs_is_not_told_as_work(serving: Agent, pool: Pool) -> None:
    before = await pool.heartbeat(lambda beat: beat["deployments"][0]["counters"])
    pool.check_round = wanted(reason="schedule", is_whole=False)
    await done(pool)

    after = await pool.heartbeat(lambda beat: len(pool.heartbeats) > 0)

    assert after["deployments"][0]["counters"] == before["deployments"][0]["counters"]


async def test_a_model_in_use_is_not_measured(serving: Agent, pool: Pool, behave: Callable[[str], None]) -> None:
    behave("slow")
    tunnel = await pool.tunnel()
    stream = await tunnel.begin({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 900, "stream": True})
    await tunnel.until(lambda: bool(tunnel.answers[stream].frames))
    pool.check_round = wanted(reason="schedule", is_whole=False)

    await done(pool)

    smoke = results(pool)["engine.smoke acme/demo"]
    assert (smoke["status"], smoke["code"]) == ("skip", "check_interrupted")
    await tunnel.send(CANCEL, stream)
    await tunnel.finish(stream)


async def test_a_customers_request_ends_the_measuring(
    serving: Agent, pool: Pool, behave: Callable[[str], None]
) -> None:
    behave("slow")
    pool.check_round = wanted(reason="schedule", is_whole=False)
    await pool.report(lambda report: (report["doing"]).endswith("disk"))

    tunnel = await pool.tunnel()
    stream = await tunnel.begin({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 900, "stream": True})
    await done(pool)

    smoke = results(pool)["engine.smoke acme/demo"]
    assert (smoke["status"], smoke["code"]) == ("skip", "check_interrupted")
    await tunnel.send(CANCEL, stream)
    await tunnel.finish(stream)


async def test_a_drained_node_stops_its_idle_engines_for_a_round_on_demand(
    serving: Agent, pool: Pool, state: State
) -> None:
    state.store_wish(Wish.DRAIN)
    pool.check_round = wanted(reason="demand")

    await done(pool)

    measured = results(pool)
    uuid = serving.inventory.latest.gpus[0]["uuid"]
    assert measured[f"gpu.matmul.bf16 {uuid}"]["status"] == "ok"
    state.store_wish(Wish.SERVE)
    await (await pool.tunnel()).until_ready()


async def test_a_step_that_fails_does_not_end_the_round_and_the_next_round_is_another(pool: Pool, state: State) -> None:
    pool.desired = []
    pool.refuse["checks/echo"] = (503, "portal_error")
    pool.check_round = wanted()
    await join(pool, state)

    async with running_agent(state):
        await done(pool)
        failed = results(pool)["network.round_trip"]
        pool.reports.clear()
        pool.check_round = wanted(round="round_2")
        await pool.report(lambda report: report["round"] == "round_2")

    assert (failed["status"], failed["code"]) == ("fail", "portal_error")
    assert {report["round"] for report in pool.reports} == {"round_2"}


async def test_an_agent_that_ends_says_that_its_round_was_cut_short(pool: Pool, state: State) -> None:
    async with halfway(pool, state):
        pass

    assert endings(pool) == [("round_1", "interrupted", "check_interrupted")]
    assert pool.reports[-1]["state"] == "interrupted"


def withdraw(pool: Pool, _state: State) -> None:
    pool.check_round = None


def replace(pool: Pool, _state: State) -> None:
    pool.check_round = wanted(round="round_2")


def pause(_pool: Pool, state: State) -> None:
    book.store(state, Book({}, Pause(datetime.now(UTC), None)))


@pytest.mark.parametrize("change", [withdraw, replace, pause])
async def test_a_round_that_is_wanted_no_longer_is_given_up_halfway(
    pool: Pool, state: State, change: Callable[[Pool, State], None]
) -> None:
    async with halfway(pool, state):
        change(pool, state)

        await done(pool, "interrupted")

        assert endings(pool) == [("round_1", "interrupted", "check_interrupted")]
        book.store(state, Book())
        pool.echoes.set()
        pool.check_round = wanted(round="round_3")
        await done(pool)

    assert endings(pool)[-1] == ("round_3", "done", "")
    assert ("round_1", "done", "") not in endings(pool)


class NoWork:
    """Nothing runs."""

    def __init__(self) -> None:
        self.bell = Bell()

    def reports(self) -> Sequence[DeploymentReport]:
        return ()

    def measurable(self) -> Sequence[Measurable]:
        return ()


async def test_a_round_that_crashes_lets_go_of_the_gpus_and_is_not_begun_again() -> None:
    reports: list[tuple[object, object]] = []
    looks: list[str] = []

    async def machine() -> Machine:
        looks.append("looked")
        raise ZeroDivisionError

    async def report(body: Mapping[str, object]) -> RoundReply:
        reports.append((body["state"], body["code"]))
        return RoundReply("interrupted")

    work = NoWork()
    rounds = Rounds(
        config=Config(), machine=machine, work=work, report=report, sizes=(lengths.SIMULATED, lengths.SIMULATED)
    )

    for _ in range(2):
        rounds.hear(WantedRound("round_1"))
        while rounds.holds_gpus:
            await asyncio.sleep(0)

    assert looks == ["looked"]
    assert reports == [("interrupted", "check_crashed")]
    assert work.bell.count == 1


async def test_an_owner_who_has_paused_is_left_alone(pool: Pool, state: State) -> None:
    pool.desired = []
    pool.check_round = wanted()
    await join(pool, state)
    book.store(state, Book({}, Pause(datetime.now(UTC), None)))

    async with running_agent(state) as agent:
        await pool.heartbeat(lambda beat: beat["wish"] == "drain")
        await pool.heartbeat(lambda beat: True)
        assert agent.rounds.holds_gpus is False

    assert pool.reports == []


def test_one_result_of_a_check_and_subject_is_told_and_it_is_the_worst() -> None:
    given = [skipped("disk", "a"), trouble("disk", Status.WARN, "disk_space_low", "b"), skipped("disk", "c")]

    assert [result.detail for result in worst(given)] == ["b"]
