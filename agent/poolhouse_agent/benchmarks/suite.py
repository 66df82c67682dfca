"""Puts a suite together for this machine and runs it step by step."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
from poolhouse_common import gpu_faults

from poolhouse_agent.benchmarks import disk, network, together
from poolhouse_agent.benchmarks.gpus import GpuSuite
from poolhouse_agent.benchmarks.lengths import Lengths
from poolhouse_agent.benchmarks.network import Exchange
from poolhouse_agent.benchmarks.programs import Programs
from poolhouse_agent.benchmarks.samples import Inventory, Sampler
from poolhouse_agent.benchmarks.step import Say, Step
from poolhouse_agent.checks.result import Result, Status, skipped, trouble
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.state import State

PARTS = ("gpu", "disk", "network", "engine")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a suite measures with. `programs` is None where the engine's Python is missing, for the reason given."""

    state: State
    gpus: GpuReport
    inventory: Inventory
    programs: Programs | None
    why_no_programs: str = ""
    exchange: Exchange | None = None
    http: aiohttp.ClientSession | None = None


class Show(Protocol):
    """Who watches: a bar on a terminal, or the portal."""

    def begin(self, step: Step, number: int, count: int) -> None:
        """A step begins."""
        ...

    def say(self, share: float) -> None:
        """So much of it is done."""
        ...

    def end(self) -> None:
        """It is over."""
        ...


def steps(machine: Machine, *, lengths: Lengths, parts: Sequence[str], more: Sequence[Step] = ()) -> list[Step]:
    """Return the steps of the wanted parts in order; `more` are the engine's."""
    found: list[Step] = []
    if "network" in parts and machine.exchange is not None:
        found.append(network.step(machine.exchange, size=lengths.network_bytes))
    if "disk" in parts:
        found.append(disk.step(machine.state.folder, size=lengths.disk_bytes))
    if "gpu" in parts:
        found += _gpu_steps(machine, lengths)
    return [*found, *more] if "engine" in parts else found


async def run(planned: Sequence[Step], *, show: Show, may_take_gpus: Callable[[], bool]) -> AsyncIterator[list[Result]]:
    """Run the steps in turn and yield the results of each; one that wants busy GPUs is left out and says so."""
    for number, step in enumerate(planned, start=1):
        if step.takes_gpus and not may_take_gpus():
            yield [skipped(step.name, "an engine uses the GPUs", code="gpu_busy")]
            continue
        show.begin(step, number, len(planned))
        try:
            yield await step.work(show.say)
        finally:
            show.end()


def _gpu_steps(machine: Machine, lengths: Lengths) -> list[Step]:
    gpus = _fit(machine.gpus)
    if not gpus:
        return [_said(_no_gpu(machine.gpus))]
    if machine.programs is None:
        return [_said(trouble("gpu.start", Status.FAIL, "engine_python_missing", machine.why_no_programs))]
    suite = GpuSuite(gpus, programs=machine.programs, sampler=Sampler(machine.inventory), lengths=lengths)
    return [*suite.steps(), *together.steps(gpus, programs=machine.programs)]


def left_out(report: GpuReport) -> list[Result]:
    """Return a failure for each GPU that is not measured beside others that are."""
    return [trouble("gpu", Status.FAIL, error["code"], error["detail"]) for error in _unfit(report) if _fit(report)]


def _fit(report: GpuReport) -> list[dict[str, Any]]:
    unfit = {error["detail"] for error in _unfit(report)}
    return [gpu for gpu in report.gpus if gpu["uuid"] not in unfit]


def _unfit(report: GpuReport) -> list[dict[str, str]]:
    return [error for error in report.errors if error["code"] in gpu_faults.UNFIT]


def _no_gpu(report: GpuReport) -> Result:
    first = next(iter([*_unfit(report), *report.errors]), {"code": "no_gpu", "detail": ""})
    return trouble("gpu.start", Status.FAIL, first["code"], first["detail"] or "there is no GPU to measure")


def _said(result: Result) -> Step:
    async def work(say: Say) -> list[Result]:
        await asyncio.sleep(0)
        say(1.0)
        return [result]

    return Step(result.id, "GPUs", 0, work)
