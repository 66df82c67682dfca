"""Tells the portal every few seconds what this node is and does, and carries its wishes back."""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from poolhouse_agent import host, installation
from poolhouse_agent.backoff import Backoff
from poolhouse_agent.client import PortalClient
from poolhouse_agent.engine.deployments import Deployments
from poolhouse_agent.errors import PortalError
from poolhouse_agent.host import HostReport
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.owner.standing import Action, Standing
from poolhouse_agent.protocol import messages
from poolhouse_agent.protocol.messages import HeartbeatReply
from poolhouse_agent.protocol.rounds import WantedRound
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.state import State, Wish
from poolhouse_agent.updates.standing import Updates

log = logging.getLogger(__name__)

_EARLIEST = 0.9
_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 30.0
_SHORTEST_S = 0.5
_INVENTORY_EVERY_S = 30.0
_DRAINED = frozenset({"draining", "maintenance"})
_OWNERS_OWN = "owner_"  # codes of an owner who has paused or uses the machine
_LEVELS = {"error": logging.ERROR, "warn": logging.WARNING}


class Inventory(Protocol):
    """Where GPU reports come from."""

    @property
    def latest(self) -> GpuReport:
        """The last report."""
        ...

    async def read(self) -> GpuReport:
        """Ask again."""
        ...


class Allows(Protocol):
    """Who says whether this machine serves."""

    def look(self, *, now: datetime) -> Standing:
        """Decide again."""
        ...


class Measures(Protocol):
    """Who measures this machine when the portal asks for it; engines stay away while it `holds_gpus`."""

    holds_gpus: bool

    def hear(self, wanted: WantedRound | None, *, is_allowed: bool, is_drained: bool) -> None:
        """Begin a round, or give one up."""
        ...


class WishAlone:
    """Allows what the owner last wished by command, and knows of no other rule."""

    def __init__(self, state: State) -> None:
        self._state = state

    def look(self, *, now: datetime) -> Standing:
        """Serve, or drain where that is the wish."""
        is_serving = self._state.wish() is Wish.SERVE
        return Standing(Action.SERVE) if is_serving else Standing(Action.DRAIN, "drain_requested")


def next_beat_s(interval_s: float) -> float:
    """Return how long to wait for the next beat: up to a tenth less than the portal asks for.

    A fleet that was held up together, by a slow portal or a dead one, would beat in step ever after.
    """
    return interval_s * random.uniform(_EARLIEST, 1.0)  # noqa: S311  jitter, not a secret


class Heart:
    """Beats for ever; `last` is the portal's last answer."""

    def __init__(
        self,
        client: PortalClient,
        sessions: SessionKeeper,
        *,
        deployments: Deployments,
        inventory: Inventory,
        state: State,
        owner: Allows | None = None,
    ) -> None:
        self._client = client
        self._sessions = sessions
        self._deployments = deployments
        self._inventory = inventory
        self._state = state
        self._machine: Callable[[], HostReport] = lambda: host.report(state.folder)
        self._owner = owner or WishAlone(state)
        self._rounds: Measures | None = None
        self._updates = Updates(state, installation.here())
        self._standing = Standing(Action.SERVE)
        self._interval_s = 15.0
        self._read_at: float | None = None
        self._said: set[str] = set()
        self._backoff = Backoff(first_s=_FIRST_DELAY_S, longest_s=_LONGEST_DELAY_S)
        self.last: HeartbeatReply | None = None
        self.last_error: PortalError | None = None

    def read_machine_with(self, machine: Callable[[], HostReport]) -> None:
        """Take the machine's readings from there: many nodes on one machine need not each read it."""
        self._machine = machine

    def measure_with(self, rounds: Measures) -> None:
        """Pass on the rounds of checks that the portal asks for; without it they are left alone."""
        self._rounds = rounds

    async def run(self) -> None:
        """Beat until the owner's wish to leave has been heard, or the node is retired. Raises PortalError then."""
        while True:
            seen = self._deployments.bell.count
            wish = self._state.wish()
            delay = await self._beat(wish)
            if wish is Wish.LEAVE and self.last_error is None and not self._deployments.running:
                return
            await self._pause(delay, seen)

    async def _beat(self, wish: Wish) -> float:
        """Send one heartbeat; return how long to wait. Raises PortalError `node_retired`."""
        await self._look_at_gpus()
        self._obey_owner()
        if self._sessions.is_refused:
            return self._interval_s
        try:
            session = await self._sessions.ensure()
            body = self._body(wish)
            reply = messages.read_heartbeat(await self._client.post("/agent/v1/heartbeat", body, bearer=session.token))
        except PortalError as error:
            return self._failed(error)
        self._backoff.reset()
        self.last, self.last_error = reply, None
        self._interval_s = float(reply.heartbeat_s)
        self._say(reply)
        self._updates.hear(reply.release, now=datetime.now(UTC))
        has_to_end = wish is Wish.LEAVE or self._obey_owner().action is Action.REST
        is_measuring = self._heard_of_checks(reply)
        self._deployments.apply(() if has_to_end or is_measuring else reply.desired)
        return next_beat_s(self._interval_s)

    def _obey_owner(self) -> Standing:
        """Do what the owner wants, before the portal is asked and whether or not it answers."""
        self._standing = self._owner.look(now=datetime.now(UTC))
        self._deployments.drain(is_draining=self._standing.action is not Action.SERVE)
        if self._standing.action is Action.REST:
            self._deployments.apply(())
        return self._standing

    def _heard_of_checks(self, reply: HeartbeatReply) -> bool:
        """Begin or give up a round of checks; tell whether it needs the GPUs for itself."""
        if self._rounds is None:
            return False
        is_resting = self._standing.action is not Action.SERVE or reply.state in _DRAINED
        self._rounds.hear(
            reply.check_round,
            is_allowed=not self._standing.code.startswith(_OWNERS_OWN),
            is_drained=is_resting and not self._deployments.running,
        )
        return self._rounds.holds_gpus

    def _failed(self, error: PortalError) -> float:
        self.last_error = error
        log.warning("heartbeat.failed", extra={"code": error.code, "detail": error.detail, "fix": error.fix})
        match error.code:
            case "session_expired" | "session_invalid":
                self._sessions.drop()
                return _SHORTEST_S
            case "session_superseded":
                self._sessions.superseded()
            case "node_retired":
                raise error
        return self._backoff.next_s()

    def _body(self, wish: Wish) -> dict[str, Any]:
        report, machine = self._inventory.latest, self._machine()
        body = messages.heartbeat_body(
            sent_at=datetime.now(UTC),
            wish=self._wish_told(wish).value,
            host=machine.values,
            gpus=report.gpus,
            gpu_errors=report.errors,
            deployments=self._deployments.reports(),
        )
        owner = messages.owner_body(self._standing)
        return {**body, **messages.host_missing_body(machine.missing), **owner, "updates": self._updates.told()}

    def _wish_told(self, wish: Wish) -> Wish:
        is_resting = wish is Wish.SERVE and self._standing.action is not Action.SERVE
        return Wish.DRAIN if is_resting else wish

    async def _look_at_gpus(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at >= _INVENTORY_EVERY_S:
            self._read_at = now
            await self._inventory.read()

    async def _pause(self, delay: float, seen: int) -> None:
        """Wait, but not when a deployment, the owner's wish or what the owner's rules allow changed meanwhile."""
        await asyncio.sleep(min(delay, _SHORTEST_S))
        loop = asyncio.get_running_loop()
        until, wish, allowed = loop.time() + delay - _SHORTEST_S, self._state.wish(), self._standing.action
        while (left := until - loop.time()) > 0:
            if self._state.wish() is not wish or self._owner.look(now=datetime.now(UTC)).action is not allowed:
                return
            try:
                async with asyncio.timeout(min(left, 1.0)):
                    await self._deployments.bell.after(seen)
            except TimeoutError:
                continue
            return

    def _say(self, reply: HeartbeatReply) -> None:
        """Log what the portal wants the owner to know, once each."""
        heard = {message.code for message in reply.messages}
        for message in reply.messages:
            if message.code not in self._said:
                level = _LEVELS.get(message.level, logging.INFO)
                log.log(
                    level, "portal.message", extra={"code": message.code, "detail": message.text, "fix": message.fix}
                )
        self._said = heard
