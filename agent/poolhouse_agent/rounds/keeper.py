"""Rounds of checks that the portal asks of a running agent: measured when nothing suffers from it, and reported."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from poolhouse_agent.bell import Bell
from poolhouse_agent.benchmarks import engines, lengths, suite
from poolhouse_agent.benchmarks.step import Say, Step
from poolhouse_agent.benchmarks.suite import Machine
from poolhouse_agent.checks import run as doctor
from poolhouse_agent.checks.result import Result, Status, Surroundings, skipped
from poolhouse_agent.config import Config
from poolhouse_agent.engine.measurable import Measurable
from poolhouse_agent.errors import PortalError
from poolhouse_agent.protocol import rounds as protocol
from poolhouse_agent.protocol.messages import DeploymentReport
from poolhouse_agent.protocol.rounds import RoundReply, WantedRound
from poolhouse_agent.rounds.watched import Watched

log = logging.getLogger(__name__)

_WITHOUT_GPU = frozenset({"stopped", "failed"})
_LOOKED_AT = ("machine", "gpu", "engine")
_WORSE = (Status.FAIL, Status.WARN, Status.OK, Status.SKIP)
_TRIES = 3
_ON_DEMAND = "demand"
_AGAIN_S = 5.0
_LOOK_S = 0.2


class Work(Protocol):
    """What runs on this node."""

    bell: Bell

    def reports(self) -> Sequence[DeploymentReport]:
        """Each deployment's state."""
        ...

    def measurable(self) -> Sequence[Measurable]:
        """The models that are up."""
        ...


class Reporter(Protocol):
    """Carries a report to the portal."""

    async def __call__(self, body: dict[str, object]) -> RoundReply:
        """Send it. Raises PortalError."""
        ...


class MachineNow(Protocol):
    """Looks at the machine as it is now."""

    async def __call__(self) -> Machine:
        """Return what a suite measures with."""
        ...


class Rounds:
    """At most one round at a time. While it `holds_gpus`, no engine is to run or to be started.

    `sizes` are those of a whole round and of a short one.
    """

    def __init__(
        self,
        *,
        config: Config,
        machine: MachineNow,
        work: Work,
        report: Reporter,
        sizes: tuple[lengths.Lengths, lengths.Lengths],
    ) -> None:
        self._config = config
        self._machine = machine
        self._work = work
        self._report = report
        self._whole, self._short = sizes
        self._task: asyncio.Task[None] | None = None
        self._wanted: WantedRound | None = None
        self._over: set[str] = set()
        self.holds_gpus = False

    def hear(self, wanted: WantedRound | None, *, is_allowed: bool = True, is_drained: bool = False) -> None:
        """Begin what is wanted, once; give up what is wanted no longer, or what the owner does not allow now.

        Where somebody asks for a round of a drained node, its idle engines make room first.
        """
        if self._wanted is not None and (wanted != self._wanted or not is_allowed):
            self._give_up()
        if wanted is None or self._task is not None or wanted.round in self._over or not is_allowed:
            self.holds_gpus = self.holds_gpus and self._task is not None
            return
        self.holds_gpus = is_drained and wanted.reason == _ON_DEMAND
        if self._is_busy() and self.holds_gpus:
            return
        self.holds_gpus = not self._is_busy()
        self._wanted = wanted
        self._task = asyncio.create_task(self._run(wanted))
        self._task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Give up what runs; the portal asks again."""
        task = self._task
        self._give_up()
        if task is not None:
            await asyncio.wait({task})

    def _give_up(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = self._wanted = None
        self.holds_gpus = False
        self._work.bell.ring()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("checks.round_crashed", exc_info=error)

    async def _run(self, wanted: WantedRound) -> None:
        log.info("checks.round_began", extra={"round": wanted.round, "reason": wanted.reason})
        code = "check_crashed"  # begun again it would only crash again, with the GPUs in its hands
        try:
            await self._measure(wanted)
            code = ""
        except asyncio.CancelledError:
            code = "check_interrupted"
            raise
        finally:
            if code:
                await self._send(wanted, "interrupted", code=code)
            if code != "check_interrupted":
                self._over.add(wanted.round)
        log.info("checks.round_ended", extra={"round": wanted.round})

    async def _measure(self, wanted: WantedRound) -> None:
        machine = await self._machine()
        size = self._whole if wanted.is_whole else self._short
        planned = self._planned(machine, size)
        first = await self._look(machine)
        if not self.holds_gpus:
            busy = [step for step in planned if step.takes_gpus]
            first += [skipped(step.name, "an engine uses the GPUs", code="gpu_busy") for step in busy]
            planned = planned[len(busy) :]
        await self._send(wanted, "running", results=worst(first))
        holding, watcher = sum(step.takes_gpus for step in planned), Watched()
        running = suite.run(planned, show=watcher, may_take_gpus=lambda: self.holds_gpus)
        async for number, found in _numbered(running):
            if number >= holding:
                self._let_engines_start()
            percent = 100 * number // len(planned)
            await self._send(wanted, "running", percent=percent, doing=watcher.title, results=worst(found))
        await self._send(wanted, "done", percent=100)

    def _planned(self, machine: Machine, size: lengths.Lengths) -> list[Step]:
        """GPUs first, so that engines wait as little as may be; a model is measured while nobody uses it."""
        parts = suite.PARTS if machine.gpus.gpus or not self._config.external else ("disk", "network", "engine")
        more = [_yielding(one, size, machine) for one in self._work.measurable()]
        steps = suite.steps(machine, lengths=size, parts=parts, more=more)
        return sorted(steps, key=lambda step: not step.takes_gpus)

    async def _look(self, machine: Machine) -> list[Result]:
        around = Surroundings(machine.state, self._config, machine.gpus)
        return [result for group in _LOOKED_AT for result in await doctor.run(around, only=group)]

    def _let_engines_start(self) -> None:
        if self.holds_gpus:
            self.holds_gpus = False
            self._work.bell.ring()

    def _is_busy(self) -> bool:
        return any(report.state not in _WITHOUT_GPU for report in self._work.reports())

    async def _send(
        self, wanted: WantedRound, state: str, *, code: str = "", percent: int = 0, doing: str = "",
        results: Sequence[Result] = (),
    ) -> None:  # fmt: skip
        """Report; one that carries more than progress is tried again."""
        reported = [told(one) for one in results[: protocol.MAX_RESULTS]]
        body = protocol.report_body(
            name=wanted.round, state=state, code=code, percent=percent, doing=doing, results=reported
        )
        for attempt in range(1, _TRIES + 1):
            try:
                reply = await self._report(body)
            except PortalError as error:
                log.warning("checks.report_failed", extra={"code": error.code, "detail": error.detail})
                is_progress = state == "running" and not reported
                if is_progress or attempt == _TRIES or state == "interrupted" or error.code == "check_round_unknown":
                    return
                await asyncio.sleep(_AGAIN_S)
            else:
                _say(reply)
                return


async def _numbered(running: AsyncIterator[list[Result]]) -> AsyncIterator[tuple[int, list[Result]]]:
    number = 0
    async for found in running:
        number += 1
        yield number, found


def told(result: Result) -> dict[str, object]:
    """A result as it is reported."""
    milli = None if result.figure is None else max(0, round(1000 * result.figure))
    return {
        "id": result.id, "version": result.version, "status": result.status.value, "subject": result.subject[:96],
        "code": result.code, "detail": result.detail[:400], "figure_milli": milli, "evidence": dict(result.evidence),
    }  # fmt: skip


def worst(results: Sequence[Result]) -> list[Result]:
    """One result of each check and subject: the worst, since the portal keeps one."""
    kept: dict[tuple[str, str], Result] = {}
    for result in results:
        before = kept.get((result.id, result.subject))
        if before is None or _WORSE.index(result.status) < _WORSE.index(before.status):
            kept[result.id, result.subject] = result
    return list(kept.values())


def _yielding(one: Measurable, size: lengths.Lengths, machine: Machine) -> Step:
    """Measure a model, and stop as soon as a request of a customer comes."""
    if machine.http is None:
        raise TypeError("a machine with models needs a client for them")
    step = engines.step(machine.http, one.target, context_tokens=one.context_tokens, lengths=size, note=one.note)

    async def work(say: Say) -> list[Result]:
        gave_way = [skipped("engine.smoke", "requests came", code="check_interrupted", subject=one.target.served_name)]
        if one.target.running:
            return gave_way
        measuring = asyncio.ensure_future(step.work(say))
        try:
            while not measuring.done() and not one.target.running:
                await asyncio.wait({measuring}, timeout=_LOOK_S)
            return measuring.result() if measuring.done() else gave_way
        finally:
            if not measuring.done():
                measuring.cancel()
                await asyncio.wait({measuring})

    return Step(step.name, step.title, step.seconds, work)


def _say(reply: RoundReply) -> None:
    """Log what the portal makes of the results, where it is no praise."""
    for one in reply.verdicts:
        if one.verdict in {"fail", "warn"}:
            extra = {"check": one.id, "subject": one.subject, "code": one.code, "fix": one.fix}
            log.warning("checks.verdict", extra={**extra, "verdict": one.verdict, "enforced": one.is_enforced})
