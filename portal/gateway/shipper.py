"""Brings closed records from this process's spool to the database, in order, until they are in."""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final

from django.db import Error as DatabaseError

from portal.core import clock
from portal.core.errors import DomainError
from portal.gateway.spool import Spool, SpoolUnavailable
from portal.gateway.threads import DatabaseThreads
from portal.metering.errors import SpoolClosed
from portal.metering.services import shipping, spools
from portal.metering.services.spool_files import SpoolReader

log = logging.getLogger(__name__)

# A batch costs about as much as a hundred of its records: few and large ones, none of them older than half a second.
_BATCH: Final = 500
_EVERY_S: Final = 0.5
_TOUCH_EVERY_S: Final = 15.0
_LONGEST_PAUSE_S: Final = 5.0
_TIMEOUT_S: Final = 30.0


class Shipper:
    """One task a process. Nothing is pruned before the database has it."""

    def __init__(self, *, spool: Spool, threads: DatabaseThreads) -> None:
        self._spool = spool
        self._threads = threads
        self._reader: SpoolReader | None = None
        self._full = asyncio.Event()
        self._touched_at = float("-inf")
        self.is_refused = False

    def wake(self) -> None:
        """Say that a record was closed: a full batch need not wait."""
        if self._spool.file.last_seq - self._spool.shipped_seq >= _BATCH:
            self._full.set()

    async def run(self) -> None:
        """Ship until cancelled; a database that is away only makes it wait."""
        pause_s = _EVERY_S
        while True:
            await self._rest(pause_s)
            pause_s = _EVERY_S if await self.ship() else min(2 * pause_s, _LONGEST_PAUSE_S)

    async def ship(self) -> bool:
        """Ship all that is closed by now; False where the database or the disk did not let it."""
        try:
            await self._ship_all()
        except SpoolClosed as error:
            self.is_refused = True
            log.critical("shipper.spool_abandoned", extra={"spool": self._spool.spool_id, "reason": error.message})
            return False
        except (DatabaseError, TimeoutError, DomainError) as error:
            log.warning("shipper.not_shipped", extra={"spool": self._spool.spool_id, "reason": type(error).__name__})
            return False
        return True

    @property
    def is_done(self) -> bool:
        """Whether the database has every closed record."""
        return self._spool.shipped_seq >= self._spool.file.last_seq

    def stop(self) -> None:
        """Close the reading connection."""
        if self._reader is not None:
            self._reader.shut()

    async def _rest(self, pause_s: float) -> None:
        """Wait, but for a full batch no longer than needed; not after a failure, which it would only repeat."""
        if pause_s > _EVERY_S:
            await asyncio.sleep(pause_s)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._full.wait()
        self._full.clear()

    async def _ship_all(self) -> None:
        newest = self._spool.file.last_seq  # what is closed meanwhile makes the next batch, not many small ones
        while self._spool.shipped_seq < newest:
            seq = await self._threads.run(self._ship_batch, timeout_s=_TIMEOUT_S, after=self._spool.shipped_seq)
            self._spool.shipped_seq = seq
            self._spool.file.prune(seq)
        now = time.monotonic()
        if self._spool.is_registered and now - self._touched_at >= _TOUCH_EVERY_S:
            await self._threads.run(spools.touch, public_id=self._spool.spool_id, now=clock.now())
            self._touched_at = now

    def _ship_batch(self, *, after: int) -> int:
        batch = self._reading().closed_after(after, limit=_BATCH)
        if not batch:
            raise SpoolUnavailable(f"spool {self._spool.spool_id} lost the records after {after}")
        seq = shipping.ship(spool_id=self._spool.spool_id, batch=batch, now=clock.now())
        self._reading().checkpoint()
        return seq

    def _reading(self) -> SpoolReader:
        if self._reader is None:
            self._reader = self._spool.file.reader()
        return self._reader
