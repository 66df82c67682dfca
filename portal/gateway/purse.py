"""One owner's leased money with those who wait for it: asks the database once for all, gives back what lies idle.

Calls that change a lease run one at a time and to their end: a late one could otherwise take back what was lent since.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from django.db import Error as DatabaseError

from portal.billing.rules import leasing
from portal.billing.rules.leasing import Ask
from portal.core.errors import DomainError
from portal.gateway import lease_pool, refusals
from portal.gateway.lease_pool import Fetched, LeasePool, Part
from portal.metering.errors import SpoolClosed

log = logging.getLogger(__name__)

WAIT_S: Final = 1.0
_CALL_IN_EVERY_S: Final = 0.25
_AHEAD_S: Final = 2.0
_AHEAD_HOLDS: Final = 8
_SCARCE_IDLE_S: Final = 0.3
_IDLE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the owner stands: all that one hold could get if nothing were held."""

    total_nano: int
    refusal: Callable[[int], DomainError]


class Source(Protocol):
    """The database's side of one owner's leases."""

    async def fetch(self, ask: Ask) -> tuple[list[Fetched], Standing]:
        """Open or enlarge leases. Raises django.db.Error, TimeoutError, SpoolClosed."""

    async def shrink(self, lease_id: int, keep_nano: int) -> int:
        """Return what lies beyond `keep_nano`; answer the lease's size. Raises django.db.Error, TimeoutError."""

    async def call_in(self) -> None:
        """Ask all processes to return what lies idle. Raises django.db.Error, TimeoutError."""


class Purse:
    """The money of one organization, or of one window of a budget, in this process."""

    def __init__(self, source: Source) -> None:
        self.pool = LeasePool()
        self.taken_at = time.monotonic()
        self._source = source
        self.lock = asyncio.Lock()
        self._waiting: dict[object, int] = {}
        self._changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._heard = 0
        self._called_in_at = float("-inf")
        self._refreshing: asyncio.Task[Standing | None] | None = None
        self._returning: asyncio.Task[None] | None = None
        self._calling_in: asyncio.Task[None] | None = None
        self._burn_since = self.taken_at
        self._burned = 0
        self._is_scarce = False

    @property
    def is_waited_for(self) -> bool:
        """Whether a request waits for money here."""
        return bool(self._waiting)

    @property
    def is_empty(self) -> bool:
        """Whether there is no lease here and none is being asked for."""
        return not (len(self.pool) or self._waiting or self._refreshing or self.lock.locked())

    def take(self, nano: int, now: float) -> list[Part] | None:
        """Hold `nano` at once where the leases have it; `now` is Unix seconds."""
        parts = self.pool.take(nano, now)
        if parts is not None:
            self.taken_at = time.monotonic()
        return parts

    def settle(self, parts: Sequence[Part], *, used: int = 0, seq: int = 0) -> None:
        """Release the parts of one hold, of which `used` was charged."""
        lease_pool.settle(parts, used=used, seq=seq)
        self._burned += used
        if self._waiting:
            self._notify()

    def hear(self) -> None:
        """Somebody is short or something came back: let our waiters ask again, and return what we do not need."""
        self._heard += 1
        self._notify()
        if self.pool.idle and (self._returning is None or self._returning.done()):
            self._returning = asyncio.get_running_loop().create_task(self.return_idle())

    async def wait_for(self, nano: int, *, beside: int = 0) -> list[Part]:
        """Hold `nano`, asking the database and waiting up to a second for what others return.

        `beside` is what the request holds here already: it will not come back while that request runs.

        Raises CreditExhausted, CreditHeld, BudgetExhausted, BillingUnavailable.
        """
        ticket = object()
        self._waiting[ticket] = nano
        deadline = time.monotonic() + WAIT_S
        standing: Standing | None = None
        try:
            while True:
                heard = self._heard
                standing = await self._refresh(deadline) or standing
                if (parts := self.take(nano, time.time())) is not None:
                    return parts
                if standing is None:
                    raise refusals.billing_unavailable()
                if standing.total_nano < nano + beside:
                    raise standing.refusal(nano + beside)
                self._call_in()
                if (parts := await self._wait_for_change(nano, heard, deadline)) is not None:
                    return parts
                if time.monotonic() >= deadline:
                    raise standing.refusal(nano + beside)
        finally:
            del self._waiting[ticket]

    async def return_idle(self) -> None:
        """Give back what neither runs nor is waited for; a lost reply only leaves us with less than we have."""
        async with self.lock:
            for lease in list(self.pool):
                if lease.idle <= 0:
                    continue
                lease.granted = keep = lease.used + lease.held
                try:
                    lease.granted = await self._source.shrink(lease.id, keep)
                except (DatabaseError, TimeoutError) as error:
                    log.warning("lease.not_returned", extra={"lease": lease.id, "reason": type(error).__name__})

    @property
    def is_overdue(self) -> bool:
        """Whether what lies idle should go back now: at once where credit is scarce, after a while elsewhere."""
        patience_s = _SCARCE_IDLE_S if self._is_scarce else _IDLE_S
        return self.pool.idle > 0 and not self._waiting and time.monotonic() - self.taken_at >= patience_s

    async def _refresh(self, deadline: float) -> Standing | None:
        """Share one call with all who wait; who comes while it runs shares the next one. None: no answer in time."""
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._fetch())
        task = self._refreshing
        await asyncio.wait({task}, timeout=max(0.0, deadline - time.monotonic()))
        return task.result() if task.done() else None

    async def _fetch(self) -> Standing | None:
        async with self.lock:
            self._refreshing = None
            ask = self._ask()
            try:
                fetched, standing = await self._source.fetch(ask)
            except (DatabaseError, TimeoutError, SpoolClosed) as error:
                log.warning("lease.not_granted", extra={"reason": type(error).__name__})
                return None
            self.pool.absorb(fetched)
            self._is_scarce = standing.total_nano < leasing.SCARCE_HOLDS * ask.minimum_nano
            return standing

    def _ask(self) -> Ask:
        waiting = self._waiting.values()
        smallest = min(waiting, default=1)
        now = time.monotonic()
        burn_a_second = self._burned / max(now - self._burn_since, 0.1)
        self._burn_since, self._burned = now, 0
        return Ask(
            wanted_nano=sum(waiting),
            minimum_nano=smallest,
            ahead_nano=max(int(_AHEAD_S * burn_a_second), _AHEAD_HOLDS * smallest),
            idle_nano=self.pool.idle_by_lease(),
        )

    async def _wait_for_change(self, nano: int, heard: int, deadline: float) -> list[Part] | None:
        """Wait for a hold to end here (None is returned when others said something, or at the deadline)."""
        while self._heard == heard and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait({self._changed}, timeout=left)
            if (parts := self.take(nano, time.time())) is not None:
                return parts
        return None

    def _notify(self) -> None:
        self._changed.set_result(None)
        self._changed = asyncio.get_running_loop().create_future()

    def _call_in(self) -> None:
        now = time.monotonic()
        if now - self._called_in_at < _CALL_IN_EVERY_S:
            return
        self._called_in_at = now
        self._calling_in = asyncio.get_running_loop().create_task(_logged(self._source.call_in()))


async def _logged(work: Awaitable[Any]) -> None:
    try:
        await work
    except (DatabaseError, TimeoutError) as error:
        log.warning("lease.not_called_in", extra={"reason": type(error).__name__})
