"""Which accounting periods are closed."""

from datetime import datetime

from django.db.models import Max

from portal.billing.models import ClosedPeriod


def closed_until() -> datetime | None:
    """Return the end of the last closed period."""
    found: datetime | None = ClosedPeriod.objects.aggregate(until=Max("ends_at"))["until"]
    return found


def open_at(at: datetime, *, now: datetime) -> datetime:
    """Return `at`, or `now` where the period of `at` is closed; hold `locks.open_periods` while it must stay true."""
    until = closed_until()
    return now if until is not None and at < until else at
