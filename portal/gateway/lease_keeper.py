"""Keeps leases alive while they are used, and ends them when they are not."""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from portal.billing.rules import leasing
from portal.billing.services import budgets, leases
from portal.core import clock
from portal.gateway.lease_sources import CALL_TIMEOUT_S
from portal.gateway.purse import Purse
from portal.gateway.spool import Spool
from portal.gateway.threads import DatabaseThreads

UNUSED_S: Final = 120.0
_RENEW_BELOW_S: Final = leasing.TERM.total_seconds() * 2 / 3


class Renew(Protocol):
    """Begins a new term for leases."""

    def __call__(self, *, lease_ids: Collection[int], now: datetime) -> dict[int, datetime]:
        """Return the new end of each lease that is still open."""


class BeginClosing(Protocol):
    """Fences leases."""

    def __call__(self, *, lease_ids: Iterable[int]) -> list[int]:
        """Return those that were open."""


class Finish(Protocol):
    """Returns a lease's rest."""

    def __call__(self, *, lease_id: int, last_seq: int, now: datetime) -> bool:
        """Return whether the lease is closed."""


@dataclass(frozen=True, slots=True)
class LeaseCalls:
    """The services of one kind of lease."""

    renew: Renew
    begin_closing: BeginClosing
    finish: Finish


CREDIT_CALLS: Final = LeaseCalls(leases.renew, leases.begin_closing, leases.finish)
BUDGET_CALLS: Final = LeaseCalls(budgets.renew, budgets.begin_closing, budgets.finish)


class LeaseKeeper:
    """Called each second with all purses of one kind."""

    def __init__(self, calls: LeaseCalls, *, spool: Spool, threads: DatabaseThreads) -> None:
        self._calls = calls
        self._spool = spool
        self._threads = threads

    async def keep(self, purses: Iterable[Purse]) -> list[int]:
        """Return idle money, renew, fence and finish; answer the leases that are gone.

        Raises django.db.Error, TimeoutError.
        """
        found = list(purses)
        for purse in found:
            if purse.is_overdue:
                await purse.return_idle()
        await self._renew(found)
        gone: list[int] = []
        for purse in found:
            if len(purse.pool):
                async with purse.lock:
                    await self._fence_unused(purse)
                    gone += await self._finish(purse)
        return gone

    async def _renew(self, purses: Iterable[Purse]) -> None:
        """Begin a new term early: whatever is held must outlive a database that is away for minutes."""
        before = time.time() + _RENEW_BELOW_S
        due = {
            lease.id: lease
            for purse in purses
            for lease in purse.pool
            if lease.expires_at < before and not lease.is_closing
        }
        if not due:
            return
        renewed = await self._threads.run(self._calls.renew, lease_ids=list(due), now=clock.now())
        for lease_id, lease in due.items():
            if lease_id in renewed:
                lease.expires_at = renewed[lease_id].timestamp()
            else:
                lease.is_closing = True

    async def _fence_unused(self, purse: Purse) -> None:
        is_used = purse.is_waited_for or purse.pool.held or time.monotonic() - purse.taken_at <= UNUSED_S
        unused = [] if is_used else [lease for lease in purse.pool if not lease.is_closing]
        if unused:
            for lease in unused:
                lease.is_closing = True
            ids = [lease.id for lease in unused]
            await self._threads.run(self._calls.begin_closing, timeout_s=CALL_TIMEOUT_S, lease_ids=ids)

    async def _finish(self, purse: Purse) -> list[int]:
        """Return the rest of leases that ended, once their last record is in the database."""
        gone: list[int] = []
        for lease in [lease for lease in purse.pool if lease.is_closing and not lease.held]:
            if self._spool.shipped_seq >= lease.last_seq:
                await self._threads.run(self._calls.finish, lease_id=lease.id, last_seq=lease.last_seq, now=clock.now())
                purse.pool.forget(lease.id)
                gone.append(lease.id)
        return gone
