"""A running agent: its parts, put together and taken apart again."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp

from poolhouse_agent import VERSION, identity
from poolhouse_agent.client import PortalClient
from poolhouse_agent.config import Config
from poolhouse_agent.engine import http, process
from poolhouse_agent.engine.choose import Workshop
from poolhouse_agent.engine.deployment import Timing
from poolhouse_agent.engine.deployments import Deployments
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.heartbeat import Heart, Inventory
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.nvml.inventory import Inventory as NvmlInventory
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.state import Membership, State, Wish
from poolhouse_agent.tunnel.keeper import TunnelKeeper

log = logging.getLogger(__name__)

_STATUS_S = 5.0


@dataclass(slots=True)
class Agent:
    """The parts of one running agent."""

    state: State
    membership: Membership
    sessions: SessionKeeper
    deployments: Deployments
    heart: Heart
    tunnel: TunnelKeeper
    inventory: Inventory

    async def run(self) -> None:
        """Serve until the owner leaves the pool or the task is cancelled."""
        tunnel = asyncio.create_task(self.tunnel.run())
        status = asyncio.create_task(self._write_status())
        heart = asyncio.create_task(self.heart.run())
        try:
            await asyncio.wait({tunnel, status, heart}, return_when=asyncio.FIRST_COMPLETED)
            for task in (tunnel, status, heart):
                if task.done():
                    task.result()
            if self.state.wish() is Wish.LEAVE:
                self.state.forget_membership()
                self.state.store_wish(Wish.SERVE)
                log.info("agent.left", extra={"node": self.membership.node})
        finally:
            self.deployments.drain(is_draining=True)
            await _end(heart, status)  # first: the heart would start again what is being stopped
            await self.deployments.end_all()
            await _end(tunnel)

    async def _write_status(self) -> None:
        while True:
            self.state.write("status.json", self.status())
            await asyncio.sleep(_STATUS_S)

    def status(self) -> dict[str, object]:
        """What `poolhouse-agent status` shows."""
        session, last, error = self.sessions.current, self.heart.last, self.heart.last_error
        return {
            "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "agent_version": VERSION,
            "node": self.membership.node,
            "server": self.membership.server,
            "wish": self.state.wish().value,
            "portal": {"code": error.code, "detail": error.detail, "fix": error.fix} if error else {"code": ""},
            "node_state": last.state if last else "",
            "generation": session.generation if session else 0,
            "tunnel": "connected" if self.tunnel.is_connected else "disconnected",
            "gpus": list(self.inventory.latest.gpus),
            "gpu_errors": list(self.inventory.latest.errors),
            "deployments": [
                {
                    "deployment": one.deployment, "model": one.model, "state": one.state, "code": one.code,
                    "detail": one.detail, "running": one.running, "max_concurrency": one.max_concurrency,
                }
                for one in self.deployments.reports()
            ],
        }  # fmt: skip


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@contextlib.asynccontextmanager
async def assembled(state: State, config: Config, *, timing: Timing | None = None) -> AsyncIterator[Agent]:
    """Build the agent of a joined machine. Raises ConfigError."""
    membership = state.membership()
    if membership is None:
        raise ConfigError("not_joined", f"{state.folder} knows of no pool")
    key = identity.load(state.key_file)
    reaped = await process.reap_leftovers(state.engines)
    if reaped:
        log.warning("engines.reaped", extra={"count": reaped})
    async with (
        PortalClient(membership.server) as client,
        http.engine_session() as engines,
        http.tunnel_session() as net,
    ):
        workshop, inventory = _on_this_machine(state, config, membership, engines)
        deployments = Deployments(workshop, timing=timing)
        sessions = SessionKeeper(client, key, node=membership.node)
        heart = Heart(client, sessions, deployments=deployments, inventory=inventory, state=state)
        tunnel = TunnelKeeper(sessions, server=membership.server, serving=deployments, net=net, engines=engines)
        yield Agent(state, membership, sessions, deployments, heart, tunnel, inventory)


def _on_this_machine(
    state: State, config: Config, membership: Membership, engines: aiohttp.ClientSession
) -> tuple[Workshop, Inventory]:
    if not membership.simulate:
        inventory = NvmlInventory(library=config.nvml)
        return Workshop(config, engines, state.engines, GpuChoice(lambda: inventory.latest)), inventory
    from poolhouse_agent.simulate import profile
    from poolhouse_agent.simulate.inventory import SimulatedInventory

    try:
        wanted = profile.parse(membership.simulate)
    except ValueError as error:
        raise ConfigError("config_invalid", str(error)) from None
    simulated = SimulatedInventory(wanted.gpus, node=membership.node)
    gpus = GpuChoice(GpuReport)  # an engine that is no simulation must not count on simulated GPUs
    return Workshop(config, engines, state.engines, gpus, wanted.behaviour, state.behaviour_file), simulated


def _ask_to_end(work: asyncio.Task[None]) -> None:
    """Cancel once: a second signal must not cut off the stopping of engines."""
    if not work.cancelling():
        work.cancel()


async def run(state: State, config: Config) -> None:
    """Run until SIGTERM, SIGINT or the wish to leave. Raises ConfigError, PortalError."""
    loop = asyncio.get_running_loop()
    async with assembled(state, config) as agent:
        work = asyncio.create_task(agent.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _ask_to_end, work)
        log.info("agent.started", extra={"node": agent.membership.node, "server": agent.membership.server})
        with contextlib.suppress(asyncio.CancelledError):
            await work
        log.info("agent.stopped", extra={"node": agent.membership.node})
