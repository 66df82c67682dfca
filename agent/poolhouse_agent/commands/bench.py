"""What `benchmark` measures with on this machine: its GPUs, the engine's Python, the way to the pool, engines."""

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from poolhouse_agent import identity
from poolhouse_agent.benchmarks import engine_python, engines, exchange, own_engine
from poolhouse_agent.benchmarks.lengths import Lengths
from poolhouse_agent.benchmarks.programs import TorchPrograms
from poolhouse_agent.benchmarks.step import Step
from poolhouse_agent.benchmarks.suite import Machine
from poolhouse_agent.client import PortalClient
from poolhouse_agent.config import Config
from poolhouse_agent.engine import http
from poolhouse_agent.engine.external import require_allowed
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.engine.launch import LEASE, Launcher
from poolhouse_agent.engine.target import Target
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import EngineError
from poolhouse_agent.nvml.inventory import Inventory
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.state import Membership, State

_SCRATCH = Path("/var/tmp")  # noqa: S108  a file of random bytes, removed again
_SIMULATED_MODEL = "simulated/model"


@dataclass(frozen=True, slots=True)
class Wish:
    """Which engine to measure: a server by its address, else what the configuration names (`model`: that one alone)."""

    url: str = ""
    model: str = ""
    at_once: int = 64
    is_eager: bool = False


@dataclass(frozen=True, slots=True)
class Bench:
    """The machine, and what its engines are made from."""

    machine: Machine
    config: Config
    http: aiohttp.ClientSession
    simulate: str = ""

    @contextlib.asynccontextmanager
    async def engine_steps(self, wish: Wish, *, lengths: Lengths) -> AsyncIterator[list[Step]]:
        """The steps of engines; one that the agent would start itself is started for it. Raises EngineError."""
        with tempfile.TemporaryDirectory(prefix="ph-") as folder:
            workshop = self._workshop(Path(folder))
            steps = [engines.step(self.http, target, lengths=lengths) for target in self._targets(wish)]
            for model, kind in self._own(wish):
                start = own_engine.Start(model, kind, wish.at_once, is_eager=wish.is_eager)
                steps.append(own_engine.step(start, workshop=workshop, lengths=lengths))
            yield steps

    def _targets(self, wish: Wish) -> list[Target]:
        if wish.url:
            require_allowed(wish.url, allowed=self.config.allowed_hosts)
            return [Target(wish.url.rstrip("/"), wish.model, wish.at_once, headers=_key())]
        targets = engines.external_targets(self.config, at_once=wish.at_once)
        return [target for target in targets if wish.model in {"", target.served_name}]

    def _own(self, wish: Wish) -> list[tuple[str, str]]:
        if wish.url:
            return []
        if self.simulate:
            return [(wish.model or _SIMULATED_MODEL, "simulate")]
        return [(model, "vllm") for model in sorted(self.config.models) if wish.model in {"", model}]

    def _workshop(self, folder: Path) -> Workshop:
        gpus = GpuChoice(lambda: self.machine.gpus)
        launcher = Launcher(folder / LEASE)
        return Workshop(
            self.config, self.http, folder, gpus, "honest" if self.simulate else "", folder / "behaviour",
            launcher=launcher,
        )  # fmt: skip


@contextlib.asynccontextmanager
async def bench(state: State, config: Config) -> AsyncIterator[Bench]:
    """Look at the machine; where it has joined and no agent runs, the way to the pool can be measured too."""
    membership = state.membership() if state.folder.exists() else None
    simulate = membership.simulate if membership is not None else ""
    folder = state if os.access(state.folder, os.W_OK) else State(_SCRATCH)
    async with http.engine_session() as session, contextlib.AsyncExitStack() as stack:
        machine = _simulated(membership, folder) if membership and simulate else await _real(config, folder)
        if membership is not None and not state.is_running():
            client = await stack.enter_async_context(PortalClient(membership.server))
            sessions = SessionKeeper(client, identity.load(state.key_file), node=membership.node)
            machine = replace(machine, exchange=exchange.with_portal(client, sessions))
        yield Bench(machine, config, session, simulate)


async def _real(config: Config, folder: State) -> Machine:
    inventory = Inventory(library=config.nvml)
    report = await inventory.read()
    try:
        python = engine_python.find(config, folder)
    except EngineError as error:
        return Machine(folder, report, inventory, None, why_no_programs=error.detail)
    return Machine(folder, report, inventory, TorchPrograms(python))


def _simulated(membership: Membership, folder: State) -> Machine:
    from poolhouse_agent.simulate import inventory, profile
    from poolhouse_agent.simulate.programs import SimulatedPrograms

    gpus = inventory.SimulatedInventory(profile.parse(membership.simulate).gpus, node=membership.node)
    return Machine(folder, gpus.latest, gpus, SimulatedPrograms(list(gpus.latest.gpus)))


def _key() -> dict[str, str]:
    key = os.environ.get("POOLHOUSE_ENGINE_KEY", "")
    return {"authorization": f"Bearer {key}"} if key else {}
