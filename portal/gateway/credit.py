"""Money for requests, from leases in memory: place is arithmetic, everything else happens beside it."""

import asyncio
import logging
import time
from datetime import datetime
from typing import Final

from django.db import Error as DatabaseError

from portal.gateway import lease_sources
from portal.gateway.contracts import Hold, KeyEntry
from portal.gateway.lease_keeper import BUDGET_CALLS, CREDIT_CALLS, UNUSED_S, LeaseKeeper
from portal.gateway.lease_pool import Lease
from portal.gateway.lease_sources import BudgetSource, CreditSource
from portal.gateway.purse import Purse
from portal.gateway.refusals import BillingUnavailable, BudgetExhausted, CreditExhausted, CreditHeld
from portal.gateway.snapshot import SnapshotStore
from portal.gateway.spool import Spool
from portal.gateway.threads import DatabaseThreads

__all__ = ["BillingUnavailable", "BudgetExhausted", "CreditBook", "CreditExhausted", "CreditHeld"]

log = logging.getLogger(__name__)

_TICK_S: Final = 1.0


class CreditBook:
    """One object a process. `place` before dispatch, `release` exactly once after it."""

    def __init__(self, *, spool: Spool, threads: DatabaseThreads, store: SnapshotStore | None = None) -> None:
        self._spool = spool
        self._threads = threads
        self._credit: dict[int, Purse] = {}
        self._budgets: dict[int, tuple[Purse, float]] = {}
        self._budget_purses: dict[int, list[Purse]] = {}
        self._budget_of: dict[int, Purse] = {}
        self._tick: asyncio.Task[None] | None = None
        self._credit_keeper = LeaseKeeper(CREDIT_CALLS, spool=spool, threads=threads)
        self._budget_keeper = LeaseKeeper(BUDGET_CALLS, spool=spool, threads=threads)
        if store is not None:
            store.subscribe("leases", self.hear)

    async def start(self) -> None:
        """Begin to renew leases and to return what lies idle."""
        self._tick = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """End the work beside requests; what is leased stays until the spool is drained."""
        if self._tick is not None:
            self._tick.cancel()
            await asyncio.gather(self._tick, return_exceptions=True)

    async def place(self, *, key: KeyEntry, nano: int, now: datetime) -> Hold:
        """Hold `nano` on the key's budget and its organization's credit.

        Raises CreditExhausted, CreditHeld, BudgetExhausted, BillingUnavailable; then nothing is held.
        """
        at = now.timestamp()
        budget: Lease | None = None
        if key.monthly_cap_nano is not None:
            purse = self._budget_purse(key, now, at)
            budget = purse.take(nano, at) or await purse.wait_for(nano)
            self._budget_of[budget.id] = purse
        try:
            credit = self._credit_purse(key.organization_id)
            lease = credit.take(nano, at) or await credit.wait_for(nano)
        except BaseException:
            if budget is not None:
                self._budget_of[budget.id].settle(budget.id, nano=nano, used=0, seq=0)
            raise
        return Hold(nano, lease.id, budget.id if budget else None, key.organization_id)

    def release(self, hold: Hold, used_nano: int, *, seq: int = 0) -> None:
        """Give the hold back but for what was charged by spool record `seq`; a second call changes nothing."""
        if not hold.is_open:
            return
        hold.is_open = False
        self._credit[hold.organization_id].settle(hold.lease_id, nano=hold.nano, used=used_nano, seq=seq)
        if hold.budget_lease_id is not None:
            purse = self._budget_of[hold.budget_lease_id]
            purse.settle(hold.budget_lease_id, nano=hold.nano, used=used_nano, seq=seq)

    def hear(self, organization_id: str) -> None:
        """Take an announcement that the organization's credit or budgets are short, or that some came back."""
        if not organization_id.isdigit():
            return
        wanted = int(organization_id)
        for purse in (self._credit.get(wanted), *self._budget_purses.get(wanted, ())):
            if purse is not None:
                purse.hear()

    def held_nano(self, organization_id: int) -> int:
        """Return what this process holds of the organization's credit for requests that run."""
        purse = self._credit.get(organization_id)
        return purse.pool.held if purse else 0

    def _credit_purse(self, organization_id: int) -> Purse:
        purse = self._credit.get(organization_id)
        if purse is None:
            purse = Purse(CreditSource(organization_id, self._spool, self._threads))
            self._credit[organization_id] = purse
        return purse

    def _budget_purse(self, key: KeyEntry, now: datetime, at: float) -> Purse:
        found = self._budgets.get(key.id)
        if found is not None and at < found[1]:
            return found[0]
        purse = Purse(BudgetSource(key.id, key.organization_id, now, self._spool, self._threads))
        self._budgets[key.id] = (purse, lease_sources.window_end(now))
        self._budget_purses.setdefault(key.organization_id, []).append(purse)
        return purse

    def _all_budget_purses(self) -> list[Purse]:
        return [purse for purses in self._budget_purses.values() for purse in purses]

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                await self._credit_keeper.keep(list(self._credit.values()))
                closed = await self._budget_keeper.keep(self._all_budget_purses())
            except (DatabaseError, TimeoutError) as error:
                log.warning("lease.not_kept", extra={"reason": type(error).__name__})
            else:
                for lease_id in closed:
                    self._budget_of.pop(lease_id, None)
                self._forget_empty()

    def _forget_empty(self) -> None:
        now, at = time.monotonic(), time.time()
        for organization_id, purse in list(self._credit.items()):
            if _is_forgettable(purse, now):
                del self._credit[organization_id]
        for key_id, (purse, ends_at) in list(self._budgets.items()):
            if _is_forgettable(purse, now) or (at >= ends_at and not len(purse.pool)):
                del self._budgets[key_id]
        for organization_id, purses in list(self._budget_purses.items()):
            current = {id(purse) for purse, _ in self._budgets.values()}
            kept = [purse for purse in purses if len(purse.pool) or id(purse) in current]
            self._budget_purses[organization_id] = kept
            if not kept:
                del self._budget_purses[organization_id]


def _is_forgettable(purse: Purse, now: float) -> bool:
    return not len(purse.pool) and not purse.is_waited_for and now - purse.taken_at > UNUSED_S
