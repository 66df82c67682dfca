"""The one place that reads the system clock."""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time, aware and in UTC."""
    return datetime.now(UTC)
