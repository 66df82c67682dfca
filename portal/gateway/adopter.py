"""Takes over what dead processes of this host left in the spool folder, at start and every few seconds."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from django.db import Error as DatabaseError

from portal.billing.services import replay
from portal.core import clock
from portal.core.errors import DomainError
from portal.gateway.threads import DatabaseThreads
from portal.metering.services import spool_files
from portal.metering.services.spool_files import SpoolPath

log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_TIMEOUT_S: Final = 600.0


class Adopter:
    """One task a process, with a thread of its own: a large spool holds nobody up."""

    def __init__(self, *, folder: Path, own: SpoolPath) -> None:
        self._folder = folder
        self._own = own
        self._thread = DatabaseThreads(size=1)

    async def run(self) -> None:
        """Adopt until cancelled."""
        while True:
            await self.adopt()
            await asyncio.sleep(_EVERY_S)

    async def adopt(self) -> int:
        """Settle, ship and remove each spool whose process is gone; return how many there were."""
        adopted = 0
        for path in spool_files.list_spools(self._folder):
            if path != self._own:
                adopted += await self._adopt_one(path)
        return adopted

    def stop(self) -> None:
        """End the thread."""
        self._thread.stop()

    async def _adopt_one(self, path: SpoolPath) -> bool:
        try:
            found = await self._thread.run(replay.replay, timeout_s=_TIMEOUT_S, path=path, now=clock.now())
        except (DatabaseError, TimeoutError, DomainError) as error:
            log.warning("spool.not_adopted", extra={"spool": path.spool_id, "reason": str(error)[:400]})
            return False
        if found is None:
            return False
        log.info(
            "spool.adopted",
            extra={"spool": found.spool_id, "settled_attempts": found.settled, "shipped_records": found.records},
        )
        return True
