"""What nodes did against the rules, kept in memory for a moment and written off the hot path.

Nothing here waits, fails a request or grows: incidents of one node and rule become one entry, at most MAX_ENTRIES wait
at once, and what finds no place is counted in `dropped`. Where a write's answer is lost, the entry is written again: a
count may then be too high, which is why standing goes by hours (portal.trust.rules.evidence) and not by counts.
"""

import asyncio
import logging
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import Error as DatabaseError

from portal.core import clock
from portal.gateway.threads import DatabaseThreads
from portal.trust.rules import evidence as rules
from portal.trust.services import evidence
from portal.trust.services.evidence import Incident

log = logging.getLogger(__name__)

MAX_ENTRIES: Final = 4_096
# What comes within this time of an incident is written together with it, so a flood is four writes a second at most.
_GATHER_S: Final = 0.25
_RETRY_S: Final = 2.0

Key = tuple[int, str, datetime]


class EvidenceLog:
    """One object a process."""

    def __init__(self, *, threads: DatabaseThreads) -> None:
        self.dropped = 0
        self._threads = threads
        self._waiting: dict[Key, Incident] = {}
        self._has_waiting = asyncio.Event()

    def note(
        self,
        *,
        node_id: int,
        rule: str,
        detail: str = "",
        request_id: UUID | None = None,
        attempt: int | None = None,
        sample: bytes = b"",
    ) -> None:
        """Keep one incident. `detail` and `sample` are protocol facts, never a customer's text. Never fails."""
        now = clock.now()
        self._add(
            Incident(
                node_id=node_id,
                rule=rule,
                count=1,
                first_at=now,
                last_at=now,
                detail=rules.sample_text(detail.encode())[: rules.MAX_DETAIL],
                sample=rules.sample_text(sample),
                request_id=request_id,
                attempt=attempt,
            )
        )

    async def run(self) -> None:
        """Write what waits soon after it came, until cancelled."""
        while True:
            await self._has_waiting.wait()
            await asyncio.sleep(_GATHER_S)
            if not await self.flush():
                await asyncio.sleep(_RETRY_S)

    async def flush(self) -> bool:
        """Write what waits; where the database does not let us, it goes on waiting within its bound."""
        waiting, self._waiting = self._waiting, {}
        self._has_waiting.clear()
        if not waiting:
            return True
        try:
            await self._threads.run(evidence.record, incidents=list(waiting.values()))
        except (DatabaseError, TimeoutError) as error:
            log.warning("evidence.not_written", extra={"reason": type(error).__name__, "entries": len(waiting)})
            for incident in waiting.values():
                self._add(incident)
            return False
        return True

    def _add(self, incident: Incident) -> None:
        key = (incident.node_id, incident.rule, rules.hour_of(incident.first_at))
        known = self._waiting.get(key)
        if known is None:
            if len(self._waiting) >= MAX_ENTRIES:
                self.dropped += incident.count
                return
            self._waiting[key] = incident
            self._has_waiting.set()
            return
        earlier, later = (known, incident) if known.first_at <= incident.first_at else (incident, known)
        last_at = max(earlier.last_at, later.last_at)
        self._waiting[key] = replace(earlier, count=earlier.count + later.count, last_at=last_at)
