"""What an organization spent in the last days."""

from datetime import datetime, timedelta

from portal.billing.rules import runway
from portal.billing.selectors import spend


def spent_lately(*, organization_id: int, now: datetime) -> int:
    """Return what was spent in the last seven days (UTC), today included."""
    today = now.date()
    return spend.spent(organization_id=organization_id, first=today - timedelta(days=runway.DAYS - 1), last=today)
