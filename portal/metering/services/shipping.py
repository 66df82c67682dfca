"""From spool records to usage rows: batch by batch, and around a record that contradicts one already stored."""

from collections.abc import Sequence
from datetime import datetime

from portal.metering.errors import UsageConflict
from portal.metering.rules import spool_records
from portal.metering.rules.usage_rows import UsageRow
from portal.metering.services import ingest
from portal.metering.services.spool_files import ClosedAttempt


def ship(*, spool_id: str, batch: Sequence[ClosedAttempt], now: datetime) -> int:
    """Bring the records in, each once, and return the sequence number the spool has reached.

    A record that contradicts a stored one is set aside, never charged. Raises SpoolUnknown, SpoolClosed.
    """
    rows = [
        spool_records.usage_row(spool_id=spool_id, seq=record.seq, opened=record.opened, closed=record.closed)
        for record in batch
    ]
    try:
        return ingest.ingest(spool=spool_id, rows=rows, now=now).shipped_seq
    except UsageConflict:
        return max(_ship_one(spool_id, row, now) for row in rows)


def _ship_one(spool_id: str, row: UsageRow, now: datetime) -> int:
    try:
        return ingest.ingest(spool=spool_id, rows=[row], now=now).shipped_seq
    except UsageConflict as error:
        ingest.refuse(spool=spool_id, row=row, error=error, now=now)
        return row.spool_seq
