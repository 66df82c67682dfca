"""Freezes what the pool publishes of each day, once no transaction of that day can still be on its way."""

from datetime import UTC, date, datetime, timedelta

from portal.billing.models import BooksDay
from portal.billing.rules import closing
from portal.billing.selectors import books as selector
from portal.core import db

# Far longer than any transaction may run after the moment that it was booked at.
FREEZES_AFTER = timedelta(hours=6)
_DAYS_A_RUN = 400


def freeze_days(*, now: datetime) -> int:
    """Freeze every day that is over and not frozen yet, in order and without gaps; return how many."""
    with db.advisory_lock("poolhouse.billing.books"):
        last = selector.last_frozen()
        first = last.day + timedelta(days=1) if last else selector.first_day()
        until = (now - FREEZES_AFTER).astimezone(UTC).date() - timedelta(days=1)
        if first is None or first > until:
            return 0
        until = min(until, first + timedelta(days=_DAYS_A_RUN))
        return _freeze(first, until, last.sha256 if last else "", now)


def _freeze(first: date, until: date, previous: str, now: datetime) -> int:
    rows = []
    for day, found in selector.days(first=first, last=until).items():
        content = selector.content(day=day, found=found)
        digest = closing.day_digest(content=content, previous=previous)
        rows.append(BooksDay(day=day, content=content, previous_sha256=previous, sha256=digest, frozen_at=now))
        previous = digest
    BooksDay.objects.bulk_create(rows)
    return len(rows)
