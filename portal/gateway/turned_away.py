"""Requests that found no node: summed in memory a minute, model and reason, written in the background.

Placement reads the sums as demand. They are no money: what a process had not written is lost with it.
"""

import asyncio
import logging
from collections import Counter
from datetime import datetime
from typing import Final

from django.db import DatabaseError

from portal.gateway import background
from portal.gateway.capacity import NoCapacity
from portal.gateway.threads import DatabaseThreads
from portal.metering.services import demand
from portal.metering.services.demand import Away

log = logging.getLogger(__name__)

MAX_SUMS: Final = 5_000
_FLUSH_S: Final = 2.0

_Sum = tuple[datetime, int, str]


class TurnedAway:
    """One object a process. `dropped` counts what found no place to wait."""

    def __init__(self, *, threads: DatabaseThreads) -> None:
        self._threads = threads
        self._waiting: Counter[_Sum] = Counter()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    def note(self, model_id: int, refusal: NoCapacity, *, now: datetime) -> None:
        """Count one request. Never fails."""
        key = (now.replace(second=0, microsecond=0), model_id, refusal.reason)
        if key not in self._waiting and len(self._waiting) >= MAX_SUMS:
            self.dropped += 1
        else:
            self._waiting[key] += 1

    async def start(self) -> None:
        """Begin to write."""
        self._task = background.start(self._follow())

    async def stop(self) -> None:
        """Write what waits, once, and end."""
        await background.stop(self._task)
        await self.flush()

    async def flush(self) -> None:
        """Write what waits; where the database does not let us, it goes on waiting within its bound."""
        waiting, self._waiting = self._waiting, Counter()
        if not waiting:
            return
        away = [Away(at, model_id, reason, requests) for (at, model_id, reason), requests in waiting.items()]
        try:
            await self._threads.run(demand.record_turned_away, away=away)
        except (DatabaseError, TimeoutError) as error:
            log.warning("turned_away.not_written", extra={"reason": type(error).__name__, "sums": len(waiting)})
            self._waiting += waiting

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            await self.flush()
