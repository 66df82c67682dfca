"""A running agent: its parts, put together and taken apart again."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import aiohttp

from poolhouse_agent import fetching, identity, status
from poolhouse_agent.benchmarks.programs import Programs
from poolhouse_agent.client import PortalClient
from poolhouse_agent.config import Config
from poolhouse_agent.engine import http, process
from poolhouse_agent.engine.deployments import Deployments
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.engine.launch import LEASE, Launcher
from poolhouse_agent.engine.timing import Timing
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.heartbeat import Heart, Inventory
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.nvml.lookout import Lookout, watching
from poolhouse_agent.owner.keeper import Owner
from poolhouse_agent.owner.power import PowerKeeper
from poolhouse_agent.receipts.book import Book
from poolhouse_agent.receipts.sender import ReceiptSender
from poolhouse_agent.rounds import assemble
from poolhouse_agent.rounds.keeper import Rounds
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.state import Membership, State, Wish
from poolhouse_agent.tunnel.keeper import TunnelKeeper
from poolhouse_agent.tunnel.terms import USUAL, Terms
from poolhouse_agent.units.notify import Notifier

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
    owner: Owner
    power: PowerKeeper
    rounds: Rounds
    receipts: ReceiptSender

    async def run(self) -> None:
        """Serve until the owner leaves the pool or the task is cancelled."""
        await self.deployments.restore()
        tunnel = asyncio.create_task(self.tunnel.run())
        telling = asyncio.create_task(self._write_status())
        power = asyncio.create_task(self._hold_power())
        heart = asyncio.create_task(self.heart.run())
        receipts = asyncio.create_task(self.receipts.run())
        is_left_running = False
        try:
            works = (tunnel, telling, heart, power, receipts)
            await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            for task in works:
                if task.done():
                    task.result()
            if self.state.wish() is Wish.LEAVE:
                self.state.forget_membership()
                self.state.store_wish(Wish.SERVE)
                log.info("agent.left", extra={"node": self.membership.node})
        except asyncio.CancelledError:
            is_left_running = self.deployments.keeps_engines
            raise
        finally:
            self.deployments.drain(is_draining=True)
            await _end(heart, telling, power)  # first: the heart would start again what is being stopped
            await self.rounds.end()
            await (self.deployments.let_go() if is_left_running else self.deployments.end_all())
            await _end(tunnel)
            await _end(receipts)
            await self.power.restore()

    def summary(self) -> str:
        """What `systemctl status` shows: one line."""
        tunnel = "connected" if self.tunnel.is_connected else "disconnected"
        state = self.heart.last.state if self.heart.last else "not heard yet"
        return f"{self.membership.node}: {state}, tunnel {tunnel}, {self.deployments.running} requests run"

    async def _write_status(self) -> None:
        while True:
            self.state.write(status.FILE, self.status())
            await asyncio.sleep(_STATUS_S)

    def status(self) -> dict[str, Any]:
        """What `poolhouse-agent status` shows."""
        parts = status.Parts(
            state=self.state,
            membership=self.membership,
            sessions=self.sessions,
            heart=self.heart,
            inventory=self.inventory,
            deployments=self.deployments,
            owner=self.owner,
            power=self.power,
        )
        return status.of(parts, is_connected=self.tunnel.is_connected, now=datetime.now(UTC))

    async def _hold_power(self) -> None:
        while True:
            if not self.membership.simulate:
                await self.power.hold(self.owner.rules.power_cap_w)
            await asyncio.sleep(_STATUS_S)


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@contextlib.asynccontextmanager
async def assembled(
    state: State, config: Config, *, timing: Timing | None = None, terms: Terms = USUAL
) -> AsyncIterator[Agent]:
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
        watching(library=config.nvml) as lookout,
    ):
        workshop, inventory = _on_this_machine(state, config, membership, engines, lookout)
        sessions = SessionKeeper(client, key, node=membership.node)
        workshop = replace(workshop, supply=fetching.supply(state, config, client, sessions))
        deployments = Deployments(workshop, timing=timing)
        owner = Owner(state, config.owner, gpus=lambda: inventory.latest, engines=state.engines)
        programs = _simulated_programs() if membership.simulate else None
        parts = assemble.Parts(state, config, client, sessions, inventory, engines, programs)
        rounds = assemble.rounds(parts, work=deployments)
        heart = Heart(client, sessions, deployments=deployments, inventory=inventory, state=state, owner=owner)
        heart.measure_with(rounds)
        tunnel = TunnelKeeper(
            sessions, server=membership.server, serving=deployments, net=net, engines=engines, terms=terms
        )
        book = Book(state.receipts, most_bytes=config.receipts_bytes)
        book.open()
        tunnel.note_with(book.note)
        power = PowerKeeper(state, library=config.nvml)
        receipts = ReceiptSender(client, sessions, key, book=book)
        yield Agent(state, membership, sessions, deployments, heart, tunnel, inventory, owner, power, rounds, receipts)


def _on_this_machine(
    state: State, config: Config, membership: Membership, engines: aiohttp.ClientSession, lookout: Lookout
) -> tuple[Workshop, Inventory]:
    launcher = Launcher(state.folder / LEASE)
    if not membership.simulate:
        gpus = GpuChoice(lambda: lookout.latest, lookout.read)
        return Workshop(config, engines, state.engines, gpus, launcher=launcher), lookout
    from poolhouse_agent.simulate import profile
    from poolhouse_agent.simulate.inventory import SimulatedInventory

    try:
        wanted = profile.parse(membership.simulate)
    except ValueError as error:
        raise ConfigError("config_invalid", str(error)) from None
    simulated = SimulatedInventory(wanted.gpus, node=membership.node)
    gpus = GpuChoice(GpuReport)  # an engine that is no simulation must not count on simulated GPUs
    return Workshop(
        config, engines, state.engines, gpus, wanted.behaviour, state.behaviour_file, launcher=launcher
    ), simulated


def _simulated_programs() -> Callable[[Sequence[Mapping[str, Any]]], Programs]:
    from poolhouse_agent.simulate.programs import SimulatedPrograms

    return SimulatedPrograms


def _ask_to_end(work: asyncio.Task[None], notifier: Notifier) -> None:
    """Cancel once: a second signal must not cut off the stopping of engines."""
    notifier.stopping()
    if not work.cancelling():
        work.cancel()


async def run(state: State, config: Config) -> None:
    """Run until SIGTERM, SIGINT or the wish to leave. Raises ConfigError, PortalError."""
    loop, notifier = asyncio.get_running_loop(), Notifier(os.environ)
    async with assembled(state, config) as agent:
        work = asyncio.create_task(agent.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _ask_to_end, work, notifier)
        log.info("agent.started", extra={"node": agent.membership.node, "server": agent.membership.server})
        notifier.ready()
        beat = asyncio.create_task(notifier.beat(agent.summary))
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await work
        finally:
            await _end(beat)
        log.info("agent.stopped", extra={"node": agent.membership.node})
