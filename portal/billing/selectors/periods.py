"""Which accounting periods are closed."""

from datetime import datetime

from django.db.models import Max

from portal.billing.models import ClosedPeriod


def closed_until() -> datetime | None:
    """Return the end of the last closed period."""
    found: datetime | None = ClosedPeriod.objects.aggregate(until=Max("ends_at"))["until"]
    return found
