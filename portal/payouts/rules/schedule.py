"""When a provider's payout is drafted by itself."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Rhythm:
    """`kind` is monthly, threshold or manual; `day` counts for monthly, `threshold_minor` for threshold."""

    kind: str
    day: int
    threshold_minor: int


def rhythm(*, pool: Rhythm, schedule: str, threshold_minor: int | None) -> Rhythm:
    """Return the provider's own choice, or the pool's; a manual pool drafts for nobody, whatever was chosen."""
    if pool.kind == "manual" or not schedule:
        return pool
    return Rhythm(kind=schedule, day=pool.day, threshold_minor=threshold_minor or pool.threshold_minor)


def wish_minor(own: Rhythm) -> int:
    """Return the smallest payout that the provider wants."""
    return own.threshold_minor if own.kind == "threshold" else 0


def month_start(own: Rhythm, *, now: datetime) -> datetime:
    """Return the last time a monthly payout was due; a payout drafted since then is this month's."""
    utc = now.astimezone(UTC)
    start = utc.replace(day=own.day, hour=0, minute=0, second=0, microsecond=0)
    if start <= utc:
        return start
    return start.replace(year=utc.year - (utc.month == 1), month=12 if utc.month == 1 else utc.month - 1)


def is_due(own: Rhythm, *, last_drafted_at: datetime | None, now: datetime) -> bool:
    """Tell whether it is the provider's turn; a threshold is always its turn, its amount decides."""
    if own.kind == "monthly":
        return last_drafted_at is None or last_drafted_at < month_start(own, now=now)
    return own.kind == "threshold"
