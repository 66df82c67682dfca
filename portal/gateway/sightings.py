"""From where keys are used: noted in memory a request at a time, written in the background, never waited for."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Final

from django.db import DatabaseError

from portal.accounts.services import sightings
from portal.accounts.services.sightings import Seen
from portal.gateway import background
from portal.gateway.addresses import Caller
from portal.gateway.contracts import KeyEntry
from portal.gateway.threads import DatabaseThreads

log = logging.getLogger(__name__)

AGAIN_AFTER_S: Final = 600.0
_FLUSH_S: Final = 2.0
_KEPT: Final = 50_000
_WAITING: Final = 10_000
_BATCH: Final = 500

_Place = tuple[int, str, str, bool]


class SightingBook:
    """Remembers what it has seen, so that a place is written once in ten minutes. Bounded; lost with the process."""

    def __init__(self, *, threads: DatabaseThreads) -> None:
        self._threads = threads
        self._noted: dict[_Place, float] = {}
        self._waiting: dict[_Place, float] = {}
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    def note(self, key: KeyEntry, caller: Caller, *, now: float) -> None:
        """Note one use. `now` is Unix seconds."""
        place = (key.id, caller.network, caller.country, key.is_replaced)
        noted_at = self._noted.get(place)
        if noted_at is not None and now - noted_at < AGAIN_AFTER_S:
            return
        self._remember(place, now)

    async def start(self) -> None:
        """Begin to write."""
        self._task = background.start(self._follow())

    async def stop(self) -> None:
        """Write what waits, once, and end."""
        await background.stop(self._task)
        await self._flush()

    def _remember(self, place: _Place, now: float) -> None:
        if not place[1]:
            return
        if len(self._waiting) >= _WAITING:
            self.dropped += 1
            return
        if len(self._noted) >= _KEPT:
            self._noted.clear()
        self._noted[place] = self._waiting[place] = now

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            await self._flush()

    async def _flush(self) -> None:
        while self._waiting:
            batch = dict(list(self._waiting.items())[:_BATCH])
            seen = [
                Seen(key, network, country, datetime.fromtimestamp(at, UTC), is_old_secret)
                for (key, network, country, is_old_secret), at in batch.items()
            ]
            try:
                await self._threads.run(sightings.record, seen=seen)
            except (DatabaseError, TimeoutError) as error:
                log.warning("sightings.not_written", extra={"reason": type(error).__name__, "waiting": len(batch)})
                return
            for place, at in batch.items():
                if self._waiting.get(place) == at:
                    del self._waiting[place]
