"""How far behind the records are on their way from gateways to ledger."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Count

from portal.metering.models import Reader, RefusedUsage, Spool

_BEHIND = """
    SELECT queue.reader, count(*), min(usage.closed_at)
    FROM metering_usagequeue queue JOIN metering_usagerecord usage USING (opened_on, request_id, attempt)
    GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Behind:
    """How many records one reader has yet to take, and how old the oldest is, in seconds."""

    reader: str
    records: int
    oldest_s: float


def by_reader(*, now: datetime) -> list[Behind]:
    """Return each reader's backlog, those without one included."""
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND)
        found = {reader: Behind(reader, count, (now - oldest).total_seconds()) for reader, count, oldest in cursor}
    return [found.get(reader, Behind(reader, 0, 0.0)) for reader in Reader.values]


def refused_count() -> int:
    """Return how many records were set aside because they contradict a stored one."""
    return RefusedUsage.objects.count()


def spools_by_state() -> dict[str, int]:
    """Return how many spools are in each state that any is in."""
    return dict(Spool.objects.order_by("state").values_list("state").annotate(Count("id")))
