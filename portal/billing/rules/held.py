"""How much may be earned before anyone is identified, and how long it is kept."""

from dataclasses import dataclass
from datetime import datetime, timedelta

# Requests under way when routing stops are still charged and earn: the line lies below the cap by their share.
STOP_AT_BPS = 9000
_BPS = 10_000


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that is held for one provider, and for all together (nano)."""

    provider_nano: int
    total_nano: int


def is_full(*, held_nano: int, total_nano: int, caps: Caps) -> bool:
    """Tell whether a provider with `held_nano` gets no more paid work, where all providers hold `total_nano`."""
    return _reaches(held_nano, caps.provider_nano) or _reaches(total_nano, caps.total_nano)


def _reaches(held: int, cap: int) -> bool:
    return held * _BPS >= cap * STOP_AT_BPS


def expires_at(*, held_at: datetime, days: int) -> datetime | None:
    """Return when an earning is forfeited; None where the pool keeps it for as long as it takes."""
    return held_at + timedelta(days=days) if days else None
