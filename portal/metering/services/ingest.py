"""How usage comes in: a batch from a spool, each record exactly once, queued for whoever reads it."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from django.db import DataError, IntegrityError, connection, transaction

from portal.metering import locks
from portal.metering.errors import SpoolClosed, UsageConflict, UsageTooOld
from portal.metering.models import DroppedDay, Reader, RefusedUsage, Spool, SpoolState
from portal.metering.rules.usage_rows import COLUMNS, UsageRow

_COLUMNS = ", ".join((*COLUMNS, "content_hash"))
# One document a batch: taking rows apart into columns is the database's work, not the gateway's.
_BATCH = "json_populate_recordset(NULL::metering_usagerecord, %s::json) AS batch"
_TAKE = f"""
    WITH fresh AS (
        INSERT INTO metering_usagerecord ({_COLUMNS}) SELECT {_COLUMNS} FROM {_BATCH} ORDER BY spool_seq
        ON CONFLICT (opened_on, request_id, attempt) DO NOTHING
        RETURNING opened_on, request_id, attempt, spool_seq
    ), queued AS (
        INSERT INTO metering_usagequeue (reader, opened_on, request_id, attempt)
        SELECT reader, opened_on, request_id, attempt FROM fresh CROSS JOIN unnest(%s::text[]) AS reader
        ORDER BY spool_seq
    )
    SELECT count(*) FROM fresh
"""  # noqa: S608  the column names are the dataclass's own
# A statement of its own: it must see what another process stored while ours waited for it.
_CLASH = f"""
    SELECT request_id, attempt FROM {_BATCH} JOIN metering_usagerecord stored USING (opened_on, request_id, attempt)
    WHERE stored.content_hash <> batch.content_hash LIMIT 1
"""  # noqa: S608  a constant

# No retention is shorter: a look at what was dropped is needed for older records only.
_SURELY_STORED = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Ingested:
    """How many records were new, how many were known already, and how far the spool has come."""

    new: int
    known: int
    shipped_seq: int


def ingest(*, spool: str, rows: Sequence[UsageRow], now: datetime) -> Ingested:
    """Store the batch, queue what is new for its readers and advance the spool, in one transaction.

    Raises UsageConflict (nothing is stored then), SpoolUnknown, SpoolClosed.
    """
    with transaction.atomic():
        register = _open_spool(spool)
        _require_recent(rows, now)
        new = _store(rows)
        _advance(register, to=max((row.spool_seq for row in rows), default=0), now=now)
    return Ingested(new=new, known=len(rows) - new, shipped_seq=register.shipped_seq)


def refuse(*, spool: str, row: UsageRow, error: UsageConflict, now: datetime) -> None:
    """Set a contradicting record aside and advance the spool past it. Raises SpoolUnknown, SpoolClosed."""
    with transaction.atomic():
        register = _open_spool(spool)
        RefusedUsage.objects.get_or_create(
            spool=register,
            spool_seq=row.spool_seq,
            defaults={
                "code": error.code,
                "detail": error.message,
                "record": {name: _plain(value) for name, value in asdict(row).items()},
                "refused_at": now,
            },
        )
        _advance(register, to=row.spool_seq, now=now)


def _open_spool(public_id: str) -> Spool:
    register = locks.spool(public_id)
    if register.state == SpoolState.ABANDONED:
        raise SpoolClosed(f"spool {public_id} was abandoned; its late records are not taken")
    return register


def _require_recent(rows: Sequence[UsageRow], now: datetime) -> None:
    old = {row.opened_on for row in rows if row.opened_on < (now - _SURELY_STORED).date()}
    if old and (dropped := DroppedDay.objects.filter(day__in=old).first()):
        raise UsageTooOld(f"the records of {dropped.day} were dropped; whether this one was among them nobody can tell")


def _store(rows: Sequence[UsageRow]) -> int:
    if not rows:
        return 0
    document = _document(rows)
    clash = None
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_TAKE, [document, Reader.values])
            new = int(cursor.fetchone()[0])
            if new < len(rows):
                cursor.execute(_CLASH, [document])
                clash = cursor.fetchone()
    except (IntegrityError, DataError) as error:
        raise UsageConflict(f"the batch breaks a rule of the usage table: {error}") from error
    if clash is not None:
        raise UsageConflict(f"request {clash[0]} attempt {clash[1]} is stored with other content")
    return new


def _document(rows: Sequence[UsageRow]) -> str:
    """Return the rows as JSON, each with the hash over what it says."""
    return "[" + ",".join(_with_hash(row.written()) for row in rows) + "]"


def _with_hash(written: bytes) -> str:
    digest = hashlib.sha256(written).hexdigest()
    return f'{written[:-1].decode()},"content_hash":"{digest}"}}'


def _advance(register: Spool, *, to: int, now: datetime) -> None:
    register.shipped_seq = max(register.shipped_seq, to)
    register.seen_at = now
    register.save(update_fields=["shipped_seq", "seen_at"])


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, (bool, int, dict, list)) else str(value)
