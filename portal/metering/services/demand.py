"""Keeps count of requests that found no node: the gateways write small sums, a row a minute, model and reason."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from portal.metering.models import TurnedAway

_KEPT = timedelta(days=7)
_ADD = """
    INSERT INTO metering_turnedaway AS known (minute, model_id, reason, requests) VALUES (%s, %s, %s, %s)
    ON CONFLICT (minute, model_id, reason) DO UPDATE SET requests = known.requests + EXCLUDED.requests
"""


@dataclass(frozen=True, slots=True)
class Away:
    """Requests for one model that were turned away, and the gateway's reason."""

    at: datetime
    model_id: int
    reason: str
    requests: int


def record_turned_away(*, away: Iterable[Away]) -> None:
    """Add to the minutes' sums."""
    sums: Counter[tuple[datetime, int, str]] = Counter()
    for one in away:
        sums[one.at.replace(second=0, microsecond=0), one.model_id, one.reason[:16]] += one.requests
    rows = [(*key, count) for key, count in sorted(sums.items()) if count > 0]
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, rows)


def forget_old(*, now: datetime) -> int:
    """Delete sums that nobody asks for any more; return how many there were."""
    return TurnedAway.objects.filter(minute__lt=now - _KEPT).delete()[0]
