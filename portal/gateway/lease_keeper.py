"""Keeps leases alive while they are used, and ends them when they are not."""

import time
from collections.abc import Iterable
from typing import Final, Generic

from portal.billing.rules import leasing
from portal.billing.services.lease_life import L, Life
from portal.core import clock
from portal.gateway.lease_sources import CALL_TIMEOUT_S
from portal.gateway.purse import Purse
from portal.gateway.spool import Spool
from portal.gateway.threads import DatabaseThreads

UNUSED_S: Final = 120.0
# Whenever the database goes away, each lease has at least eleven minutes in which it may be spent from.
_RENEW_BELOW_S: Final = leasing.TERM.total_seconds() * 4 / 5


class LeaseKeeper(Generic[L]):
    """Called twice a second with all purses of one kind."""

    def __init__(self, life: Life[L], *, spool: Spool, threads: DatabaseThreads) -> None:
        self._life: Life[L] = life
        self._spool = spool
        self._threads = threads

    async def keep(self, purses: Iterable[Purse]) -> None:
        """Return idle money, renew, fence and finish. Raises django.db.Error, TimeoutError."""
        found = list(purses)
        for purse in found:
            if purse.is_overdue:
                await purse.return_idle()
        await self._renew(found)
        for purse in found:
            if len(purse.pool):
                async with purse.lock:
                    await self._fence_unused(purse)
                    await self._finish(purse)

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
        renewed = await self._threads.run(self._life.renew, lease_ids=list(due), now=clock.now())
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
            await self._threads.run(self._life.begin_closing, timeout_s=CALL_TIMEOUT_S, lease_ids=ids)

    async def _finish(self, purse: Purse) -> None:
        """Return the rest of leases that ended, once their last record is in the database."""
        for lease in [lease for lease in purse.pool if lease.is_closing and not lease.held]:
            if self._spool.shipped_seq >= lease.last_seq:
                await self._threads.run(self._life.finish, lease_id=lease.id, last_seq=lease.last_seq, now=clock.now())
                purse.pool.forget(lease.id)
