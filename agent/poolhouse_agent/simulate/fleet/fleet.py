"""The fleet as a whole: joins who has not joined, starts everybody, watches, and sends everybody home."""

import asyncio
import contextlib
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from poolhouse_common import garbage

from poolhouse_agent.engine import http
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.simulate.fleet import figures, kinds, mix
from poolhouse_agent.simulate.fleet.conditions import Conditions, Weather
from poolhouse_agent.simulate.fleet.figures import Figures
from poolhouse_agent.simulate.fleet.identities import Identities, Member
from poolhouse_agent.simulate.fleet.kinds import Kind
from poolhouse_agent.simulate.fleet.link import Link, SharedTransport
from poolhouse_agent.simulate.fleet.machine import SharedMachine
from poolhouse_agent.simulate.fleet.node import Shared, SimulatedNode

_POOLS = 32
_KEPT_A_POOL = 2
_JOINING_AT_ONCE = 8
_WATCH_EVERY_S = 2.0
_FIRST = asyncio.FIRST_COMPLETED


@dataclass(frozen=True, slots=True)
class Plan:
    """What fleet, where, for how long."""

    server: str
    folder: Path
    nodes: int
    weights: dict[str, int]
    seed: int = 0
    duration_s: float = 600.0
    ramp_s: float = 20.0
    pace: float = 1.0
    tokens: Sequence[str] = field(default=(), repr=False)


class Fleet:
    """Many nodes in this process."""

    def __init__(self, plan: Plan, shared: Shared) -> None:
        self._plan = plan
        self._shared = shared
        self._identities = Identities(plan.folder)
        self.weather = Weather(pace=plan.pace)
        self._nodes: list[SimulatedNode] = []

    async def run(self, watch: Callable[[dict[str, Any]], None], *, stopped: asyncio.Event) -> dict[str, Any]:
        """Live through the plan, or until `stopped`; return the report. Raises ConfigError, PortalError."""
        members = await self._join()
        self.weather.began_at = asyncio.get_running_loop().time()
        drawn = mix.draw(self._plan.weights, nodes=self._plan.nodes, seed=self._plan.seed)
        lives = asyncio.create_task(self._live(list(zip(members, drawn, strict=True))))
        ending: asyncio.Future[Any] = asyncio.ensure_future(stopped.wait())
        try:
            while not lives.done() and not ending.done() and (left_s := self._left_s()) > 0:
                await asyncio.wait({lives, ending}, timeout=min(_WATCH_EVERY_S, left_s), return_when=_FIRST)
                watch(self.report())
            report = self.report()
            if lives.done():
                lives.result()
        finally:
            for task in (lives, ending):
                task.cancel()
            await asyncio.wait({lives, ending})
        return report

    def _left_s(self) -> float:
        return self._plan.duration_s - self.weather.elapsed_s

    def report(self) -> dict[str, Any]:
        """Where the fleet stands now."""
        return {
            "elapsed_s": round(self.weather.elapsed_s, 1),
            "is_silenced": self.weather.is_silent,
            "nodes": {
                "total": len(self._nodes),
                "tunnels": sum(node.has_tunnel for node in self._nodes),
                "ended": sum(bool(node.ended) for node in self._nodes),
                "by_kind": figures.crossed([(node.kind, node.state) for node in self._nodes]),
            },
            "routes": self._shared.figures.routes(),
            "heartbeats": self._shared.figures.minutes(),
            "heartbeats_before_silence": self._shared.figures.calm(),
            "failures": dict(sorted(self._shared.figures.failures.items())),
            "withheld": self._shared.figures.withheld,
        }

    async def _join(self) -> list[Member]:
        """Return the members, enrolling those that are missing with the tokens at hand."""
        members = [self._identities.member(number, server=self._plan.server) for number in range(self._plan.nodes)]
        missing = [number for number, member in enumerate(members) if member is None]
        if len(missing) > len(self._plan.tokens):
            raise ConfigError("token_missing", f"{len(missing)} nodes must join, {len(self._plan.tokens)} tokens given")
        work = iter(zip(missing, self._plan.tokens, strict=False))
        found = await asyncio.gather(*(self._join_some(work) for _ in range(_JOINING_AT_ONCE)))
        for number, member in (pair for pairs in found for pair in pairs):
            members[number] = member
        return [member for member in members if member is not None]

    async def _join_some(self, work: Iterator[tuple[int, str]]) -> list[tuple[int, Member]]:
        conditions = Conditions(kinds.find("healthy"), self.weather, seed="")
        client = Link(
            self._plan.server, transport=self._shared.transport, conditions=conditions, figures=self._shared.figures
        )
        async with client:
            return [(number, await self._identities.join(number, client, token=token)) for number, token in work]

    async def _live(self, cast: Sequence[tuple[Member, Kind]]) -> None:
        """Start the nodes one after the other over the ramp, and let them live."""
        pause_s = self._plan.ramp_s / max(1, len(cast))
        garbage.settle()
        async with asyncio.TaskGroup() as group:
            for number, (member, kind) in enumerate(cast):
                for twin in range(2 if kind.has_twin else 1):
                    conditions = Conditions(kind, self.weather, seed=f"{self._plan.seed}/{number}/{twin}")
                    node = SimulatedNode(member, conditions, self._shared)
                    self._nodes.append(node)
                    group.create_task(node.run())
                await asyncio.sleep(pause_s)
            garbage.settle()


@contextlib.asynccontextmanager
async def shared_by_all(server: str) -> AsyncIterator[Shared]:
    """What the nodes of a fleet use together."""
    tls = ssl.create_default_context() if server.startswith("https:") else False
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT_A_POOL)
    pools = [httpx.AsyncHTTPTransport(verify=tls, limits=limits, trust_env=False) for _ in range(_POOLS)]
    async with contextlib.AsyncExitStack() as stack:
        for pool in pools:
            await stack.enter_async_context(pool)
        engines = await stack.enter_async_context(http.engine_session())
        net = await stack.enter_async_context(http.tunnel_session(limit=0))
        yield Shared(SharedTransport(pools), net, engines, Figures(), SharedMachine())


async def run(plan: Plan, watch: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run a fleet as planned; return its report. Raises ConfigError, PortalError.

    SIGTERM and SIGINT end it early. SIGUSR1 withholds all messages to the portal until the next one.
    """
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    async with shared_by_all(plan.server) as shared:
        fleet = Fleet(plan, shared)
        loop.add_signal_handler(signal.SIGUSR1, fleet.weather.turn)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        return await fleet.run(watch, stopped=stopped)
