"""Puts together what a running agent measures itself with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from poolhouse_agent.benchmarks import engine_python, exchange, lengths
from poolhouse_agent.benchmarks.programs import Programs, TorchPrograms
from poolhouse_agent.benchmarks.samples import Inventory
from poolhouse_agent.benchmarks.suite import Machine
from poolhouse_agent.client import PortalClient
from poolhouse_agent.config import Config
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol import rounds as protocol
from poolhouse_agent.protocol.rounds import RoundReply
from poolhouse_agent.rounds.keeper import Rounds, Work
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.state import State


@dataclass(frozen=True, slots=True)
class Parts:
    """What of the agent the checks use."""

    state: State
    config: Config
    client: PortalClient
    sessions: SessionKeeper
    inventory: Inventory
    engines: aiohttp.ClientSession
    simulated: Callable[[Sequence[Mapping[str, Any]]], Programs] | None = None  # where the GPUs are not there

    async def machine(self) -> Machine:
        """Look at the machine as it is now."""
        report = await self.inventory.read()
        programs, why = self._programs(report.gpus)
        return Machine(
            self.state, report, self.inventory, programs, why,
            exchange=exchange.with_portal(self.client, self.sessions), http=self.engines,
        )  # fmt: skip

    async def report(self, body: Mapping[str, Any]) -> RoundReply:
        """Send a report. Raises PortalError."""
        session = await self.sessions.ensure()
        answer = await self.client.post("/agent/v1/checks/report", body, bearer=session.token)
        return protocol.read_report(answer)

    def _programs(self, gpus: tuple[dict[str, Any], ...]) -> tuple[Programs | None, str]:
        if self.simulated is not None:
            return self.simulated(gpus), ""
        try:
            return TorchPrograms(engine_python.find(self.config, self.state)), ""
        except EngineError as error:
            return None, error.detail


def rounds(parts: Parts, *, work: Work) -> Rounds:
    """Return the keeper of rounds."""
    sizes = (lengths.SIMULATED, lengths.SIMULATED) if parts.simulated else (lengths.WHOLE, lengths.SHORT)
    return Rounds(config=parts.config, machine=parts.machine, work=work, report=parts.report, sizes=sizes)
