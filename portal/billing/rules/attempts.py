"""How many purchases may be begun within an hour and a day, and when the next one may be."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The most attempts within an hour and within a day; 0 is no limit."""

    an_hour: int
    a_day: int


def next_at(attempts: Sequence[datetime], *, allowance: Allowance, now: datetime) -> datetime | None:
    """Return when the next attempt is allowed; None: now. `attempts` are those of the last day, in any order."""
    moments = [
        _free_at(sorted(attempts), most=most, span=span, now=now)
        for most, span in ((allowance.an_hour, HOUR), (allowance.a_day, DAY))
        if most
    ]
    waits = [moment for moment in moments if moment is not None]
    return max(waits, default=None)


def _free_at(attempts: Sequence[datetime], *, most: int, span: timedelta, now: datetime) -> datetime | None:
    within = [at for at in attempts if at > now - span]
    return within[-most] + span if len(within) >= most else None
