"""Accounting periods: UTC months, half open."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

CLOSING_DELAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Period:
    """`starts_at` belongs to the period, `ends_at` to the next one."""

    starts_at: datetime
    ends_at: datetime

    def __contains__(self, at: datetime) -> bool:
        return self.starts_at <= at < self.ends_at

    def __str__(self) -> str:
        return f"{self.starts_at:%Y-%m}"


def month_of(at: datetime) -> Period:
    """Return the UTC month that `at` falls in. Raises ValueError for a naive time."""
    if at.tzinfo is None:
        raise ValueError("a period needs an aware time")
    utc = at.astimezone(UTC)
    start = datetime(utc.year, utc.month, 1, tzinfo=UTC)
    return Period(start, _next_month(start))


def month_before(period: Period) -> Period:
    """Return the month that ends where `period` starts."""
    return month_of(period.starts_at - timedelta(microseconds=1))


def may_close(period: Period, *, now: datetime) -> bool:
    """Tell whether the month is over and usage had a day to arrive."""
    return now >= period.ends_at + CLOSING_DELAY


def open_at(at: datetime, *, closed_until: datetime | None, now: datetime) -> datetime:
    """Return `at`, or `now` where the period of `at` is closed."""
    return now if closed_until is not None and at < closed_until else at


def _next_month(start: datetime) -> datetime:
    return datetime(start.year + start.month // 12, start.month % 12 + 1, 1, tzinfo=UTC)
