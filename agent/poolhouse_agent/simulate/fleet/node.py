"""One simulated node: the agent's own session, heart, tunnel and deployments, living through its conditions."""

import asyncio
from dataclasses import dataclass

import aiohttp
import httpx

from poolhouse_agent.config import Config
from poolhouse_agent.engine.deployments import Deployments
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.engine.timing import Timing
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import PortalError
from poolhouse_agent.heartbeat import Heart
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.simulate.fleet.checks import FleetChecks
from poolhouse_agent.simulate.fleet.conditions import Conditions
from poolhouse_agent.simulate.fleet.engine import InProcessEngine
from poolhouse_agent.simulate.fleet.figures import Figures
from poolhouse_agent.simulate.fleet.identities import Member
from poolhouse_agent.simulate.fleet.inventory import FleetInventory
from poolhouse_agent.simulate.fleet.link import Link
from poolhouse_agent.simulate.fleet.machine import SharedMachine
from poolhouse_agent.state import State, Wish
from poolhouse_agent.tunnel.keeper import TunnelKeeper

# A fleet shares two cores with the pool it is tried on: each engine is looked after less often than a real one.
_TIMING = Timing(poll_s=30.0, probe_every_s=600.0, drain_s=2.0)
_TWIN_WAIT_S = 20.0  # a thief's tool does not stay away as long as an agent does


@dataclass(frozen=True, slots=True)
class Shared:
    """What all nodes of a fleet use together."""

    transport: httpx.AsyncBaseTransport
    net: aiohttp.ClientSession
    engines: aiohttp.ClientSession
    figures: Figures
    machine: SharedMachine


class WishOnly(State):
    """A member's state whose wish is kept in memory: the simulated owner changes it, nobody else."""

    def __init__(self, state: State, conditions: Conditions) -> None:
        super().__init__(state.folder)
        self._conditions = conditions

    def wish(self) -> Wish:
        """What the simulated owner wants now."""
        if self._conditions.wants_to_leave:
            return Wish.LEAVE
        return Wish.SERVE if self._conditions.is_owner_away else Wish.DRAIN


class SimulatedNode:
    """Runs until cancelled, or until the portal has let the node go."""

    def __init__(self, member: Member, conditions: Conditions, shared: Shared) -> None:
        self._member = member
        self._conditions = conditions
        self._shared = shared
        self._heart: Heart | None = None
        self._tunnel: TunnelKeeper | None = None
        self.ended = ""

    @property
    def kind(self) -> str:
        """Its kind's name."""
        return self._conditions.kind.name

    @property
    def state(self) -> str:
        """What the portal last said of it, or why it has none."""
        if self.ended:
            return self.ended
        error = self._heart.last_error if self._heart is not None else None
        if error is not None and error.code.startswith("node_"):
            return error.code
        return self._heart.last.state if self._heart is not None and self._heart.last is not None else ""

    @property
    def has_tunnel(self) -> bool:
        """Whether its tunnel is up."""
        return self._tunnel is not None and self._tunnel.is_connected

    async def run(self) -> None:
        """Live, process after process."""
        rhythm = self._conditions.kind.process
        while not self.ended:
            life = asyncio.create_task(self._process())
            try:
                await _first(life, asyncio.create_task(self._conditions.change_of(rhythm)))
            finally:
                await _end(life)
            if not self.ended:
                await self._conditions.change_of(rhythm)

    async def _process(self) -> None:
        """One process of the agent, from its start to its end."""
        member, shared = self._member, self._shared
        client = Link(
            member.membership.server,
            transport=shared.transport,
            conditions=self._conditions,
            figures=shared.figures,
        )
        wait = (
            {"superseded_wait_s": _TWIN_WAIT_S / self._conditions.weather.pace}
            if self._conditions.kind.has_twin
            else {}
        )
        sessions = SessionKeeper(client, member.identity, node=member.membership.node, **wait)
        inventory = FleetInventory(self._conditions, node=member.membership.node)
        deployments = Deployments(self._workshop(), timing=_TIMING)
        state = WishOnly(member.state, self._conditions)
        self._heart = Heart(client, sessions, deployments=deployments, inventory=inventory, state=state)
        self._heart.read_machine_with(shared.machine)
        checks = FleetChecks(
            client,
            sessions,
            state=state,
            inventory=inventory,
            boasts=self._conditions.kind.boasts,
        )
        self._heart.measure_with(checks)
        self._tunnel = TunnelKeeper(
            sessions,
            server=member.membership.server,
            serving=deployments,
            net=shared.net,
            engines=shared.engines,
        )
        tunnel = asyncio.create_task(self._keep_tunnel(self._tunnel))
        try:
            await self._beat(self._heart)
        finally:
            await _end(tunnel)
            await checks.end()
            await deployments.end_all()
            await client.__aexit__(None, None, None)

    def _workshop(self) -> Workshop:
        behaviour = self._conditions.kind.behaviour
        return Workshop(
            Config(),
            self._shared.engines,
            self._member.state.engines,
            GpuChoice(GpuReport),
            simulator=lambda desired: InProcessEngine(desired, behaviour=behaviour),
        )

    async def _beat(self, heart: Heart) -> None:
        try:
            await heart.run()
        except PortalError as error:
            self.ended = error.code
        else:
            self.ended = "left"

    async def _keep_tunnel(self, keeper: TunnelKeeper) -> None:
        """Hold the tunnel while there is a network."""
        rhythm = self._conditions.kind.network
        while True:
            if self._conditions.has_network:
                await _first(asyncio.create_task(keeper.run()), asyncio.create_task(self._conditions.change_of(rhythm)))
            else:
                await self._conditions.change_of(rhythm)


async def _first(*tasks: asyncio.Task[None]) -> None:
    """Run until one of them ends, and end the others. Raises what the one raised."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _end(*tasks)


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
