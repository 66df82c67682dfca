"""The windows of a budget: days, weeks from Monday and months of a time zone, as half-open instants in UTC."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Protocol
from zoneinfo import ZoneInfo

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class BudgetPeriod(StrEnum):
    """How often a budget starts again; `lifetime` never does."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    LIFETIME = "lifetime"


class BudgetTerms(Protocol):
    """A budget as its owner (public id of a key, a project or an organization) set it."""

    @property
    def owner(self) -> str:
        """Who has the budget."""

    @property
    def period(self) -> str:
        """How often it starts again."""

    @property
    def cap_nano(self) -> int:
        """The most that may be spent in one window."""

    @property
    def zone(self) -> str:
        """The time zone whose midnight counts."""


@dataclass(frozen=True, slots=True)
class Window:
    """`starts_at` belongs to the window, `ends_at` to the next one; None: it never ends."""

    starts_at: datetime
    ends_at: datetime | None

    def __contains__(self, at: datetime) -> bool:
        return self.starts_at <= at and (self.ends_at is None or at < self.ends_at)


def window_of(*, period: str, zone: str, at: datetime) -> Window:
    """Return the window that `at` falls in. Raises ValueError for a naive time or an unknown period."""
    if at.tzinfo is None:
        raise ValueError("a budget window needs an aware time")
    if period == BudgetPeriod.LIFETIME:
        return Window(_BEGINNING, None)
    first = _first_day(BudgetPeriod(period), at.astimezone(ZoneInfo(zone)).date())
    return Window(_midnight(first, zone), _midnight(_next_first(BudgetPeriod(period), first), zone))


def _first_day(period: BudgetPeriod, day: date) -> date:
    if period is BudgetPeriod.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if period is BudgetPeriod.MONTH else day


def _next_first(period: BudgetPeriod, first: date) -> date:
    if period is BudgetPeriod.MONTH:
        return date(first.year + first.month // 12, first.month % 12 + 1, 1)
    return first + timedelta(days=7 if period is BudgetPeriod.WEEK else 1)


def _midnight(day: date, zone: str) -> datetime:
    """Return when the day begins there: where midnight is skipped that is the skip, where it comes twice the first."""
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
