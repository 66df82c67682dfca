"""The rounds of checks of a simulated node: its GPUs through the agent's own suite, nothing of this machine's."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

from poolhouse_agent.benchmarks import lengths, suite
from poolhouse_agent.benchmarks.programs import Job, Outcome, Programs
from poolhouse_agent.benchmarks.step import Say
from poolhouse_agent.benchmarks.suite import Machine
from poolhouse_agent.client import PortalClient
from poolhouse_agent.errors import PortalError
from poolhouse_agent.protocol import rounds as protocol
from poolhouse_agent.protocol.rounds import WantedRound
from poolhouse_agent.rounds.keeper import told, worst
from poolhouse_agent.rounds.watched import Watched
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.simulate.fleet.inventory import FleetInventory
from poolhouse_agent.simulate.programs import SimulatedPrograms
from poolhouse_agent.state import State

log = logging.getLogger(__name__)


class BoastfulPrograms:
    """Claims `factor` times the product of the card that it names: what a cheat who has read the price list does."""

    def __init__(self, honest: Programs, *, factor: float) -> None:
        self._honest = honest
        self._factor = factor

    async def run(self, job: Job, say: Say) -> Outcome:
        """Answer, and exaggerate."""
        outcome = await self._honest.run(job, say)
        claimed = {name: value * self._factor for name, value in outcome.found.items() if name.endswith("tflops")}
        return replace(outcome, found={**outcome.found, **claimed})


class FleetChecks:
    """Does each round once."""

    holds_gpus = False

    def __init__(
        self,
        client: PortalClient,
        sessions: SessionKeeper,
        *,
        state: State,
        inventory: FleetInventory,
        boasts: float = 1.0,
    ) -> None:
        self._client = client
        self._sessions = sessions
        self._state = state
        self._inventory = inventory
        self._boasts = boasts
        self._begun: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, wanted: WantedRound | None, *, is_allowed: bool, is_drained: bool) -> None:
        """Begin the round that the portal asks for, if it is a new one and the owner lets it."""
        if wanted is None or wanted.round in self._begun or not is_allowed:
            return
        self._begun.add(wanted.round)
        task = asyncio.create_task(self._run(wanted))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Give up what runs."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("checks.round_crashed", exc_info=error)

    async def _run(self, wanted: WantedRound) -> None:
        try:
            await self._report(wanted, "running")
            await self._report(wanted, "done", results=await self._measure())
        except PortalError as error:
            self._begun.discard(wanted.round)  # the portal asks again
            log.warning("checks.report_failed", extra={"code": error.code, "detail": error.detail})

    async def _measure(self) -> list[dict[str, object]]:
        gpus = self._inventory.latest
        # Nobody watches the progress of a thousand nodes: their timers would take more of the machine than the pool.
        programs = BoastfulPrograms(SimulatedPrograms(list(gpus.gpus), pause_s=0), factor=self._boasts)
        machine = Machine(self._state, gpus, self._inventory, programs)
        planned = suite.steps(machine, lengths=lengths.SIMULATED, parts=("gpu",))
        running = suite.run(planned, show=Watched(), may_take_gpus=lambda: True)
        found = [result async for results in running for result in results]
        return [told(one) for one in worst(found)[: protocol.MAX_RESULTS]]

    async def _report(self, wanted: WantedRound, state: str, *, results: list[dict[str, Any]] | None = None) -> None:
        session = await self._sessions.ensure()
        percent = 100 if state == "done" else 0
        body = protocol.report_body(name=wanted.round, state=state, percent=percent, results=results or ())
        protocol.read_report(await self._client.post("/agent/v1/checks/report", body, bearer=session.token))
