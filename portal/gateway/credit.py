"""Money for requests, from leases in memory: place is arithmetic, everything else happens beside it."""

import asyncio
import logging
import time
from datetime import datetime
from typing import Final

from django.db import Error as DatabaseError

from portal.billing.rules import leasing
from portal.billing.services import budgets, leases
from portal.gateway import background, lease_pool
from portal.gateway.budget_purses import BudgetPurses
from portal.gateway.contracts import Drawn, Hold, KeyEntry
from portal.gateway.lease_keeper import UNUSED_S, LeaseKeeper
from portal.gateway.lease_sources import CreditSource
from portal.gateway.purse import Purse
from portal.gateway.refusals import BillingUnavailable, BudgetExhausted, CreditExhausted, CreditHeld, HoldEnded
from portal.gateway.snapshot import SnapshotStore
from portal.gateway.spool import Spool
from portal.gateway.threads import DatabaseThreads

__all__ = ["BillingUnavailable", "BudgetExhausted", "CreditBook", "CreditExhausted", "CreditHeld", "HoldEnded"]

log = logging.getLogger(__name__)

_TICK_S: Final = 0.5


class CreditBook:
    """One object a process. `place` before dispatch, `extend` while it runs, `release` exactly once after it."""

    def __init__(self, *, spool: Spool, threads: DatabaseThreads, store: SnapshotStore | None = None) -> None:
        self._spool = spool
        self._threads = threads
        self._credit: dict[int, Purse] = {}
        self._budgets = BudgetPurses(spool=spool, threads=threads)
        self._tick: asyncio.Task[None] | None = None
        self._credit_keeper = LeaseKeeper(leases.LIFE, spool=spool, threads=threads)
        self._budget_keeper = LeaseKeeper(budgets.LIFE, spool=spool, threads=threads)
        if store is not None:
            store.subscribe("leases", self.hear)

    async def start(self) -> None:
        """Begin to renew leases and to return what lies idle."""
        self._tick = background.start(self._keep())

    async def stop(self) -> None:
        """End the work beside requests; what is leased stays until the spool is drained."""
        await background.stop(self._tick)

    async def place(self, *, key: KeyEntry, nano: int, now: datetime) -> Hold:
        """Hold `nano` of every budget the key draws on and of its organization's credit.

        Raises CreditExhausted, CreditHeld, BudgetExhausted, BillingUnavailable; then nothing is held.
        """
        at = now.timestamp()
        organization_id = key.organization_id
        purses = [self._budgets.find(terms, now, at) for terms in key.budgets]
        purses.append(self._credit_purse(organization_id))
        *drawn, credit = await _take(purses, nano, at)
        return Hold(nano, organization_id, credit, tuple(drawn))

    async def extend(self, hold: Hold, nano: int) -> None:
        """Hold `nano` more, of the same credit and the same windows of budgets.

        Raises what `place` raises, and HoldEnded where the request was settled meanwhile; then it is as it was.
        """
        mine = (*hold.budgets, hold.credit)
        more = await _take([drawn.purse for drawn in mine], nano, time.time(), beside=hold.nano)
        if not (hold.is_open and hold.may_grow):
            _give_back(more)
            raise HoldEnded("the request was settled while its hold was being extended")
        for drawn, added in zip(mine, more, strict=True):
            lease_pool.join(drawn.parts, added.parts)
        hold.nano += nano

    def release(self, hold: Hold, used_nano: int, *, seq: int = 0) -> None:
        """Give the hold back but for what was charged by spool record `seq`; a second call changes nothing."""
        if not hold.is_open:
            return
        hold.is_open = False
        for drawn in (hold.credit, *hold.budgets):
            drawn.purse.settle(drawn.parts, used=used_nano, seq=seq)

    def hear(self, subject: str) -> None:
        """Take an announcement that an organization's credit or an owner's budget is short, or that some came back."""
        owner = leasing.budget_owner(subject)
        if owner is not None:
            for purse in self._budgets.of_owner(owner):
                purse.hear()
        elif subject.isdigit() and (credit := self._credit.get(int(subject))) is not None:
            credit.hear()

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

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                await self._credit_keeper.keep(list(self._credit.values()))
                await self._budget_keeper.keep(self._budgets.all())
            except (DatabaseError, TimeoutError) as error:
                log.warning("lease.not_kept", extra={"reason": type(error).__name__})
            else:
                self._forget_empty()

    def _forget_empty(self) -> None:
        before = time.monotonic() - UNUSED_S
        for organization_id, purse in list(self._credit.items()):
            if purse.is_empty and purse.taken_at < before:
                del self._credit[organization_id]
        self._budgets.forget_empty()


async def _take(purses: list[Purse], nano: int, at: float, *, beside: int = 0) -> list[Drawn]:
    """Take `nano` from each purse, or from none. Raises what a purse refuses with."""
    taken: list[Drawn] = []
    try:
        for purse in purses:
            parts = purse.take(nano, at) or await purse.wait_for(nano, beside=beside)
            taken.append(Drawn(purse, parts))
    finally:  # a cancellation, too, must give back what was taken
        if len(taken) < len(purses):
            _give_back(taken)
    return taken


def _give_back(taken: list[Drawn]) -> None:
    for drawn in taken:
        drawn.purse.settle(drawn.parts)
