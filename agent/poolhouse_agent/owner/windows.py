"""Times of the week in the machine's own zone: `mon-fri 22:00-07:00`, `sat,sun 00:00-24:00`, `23:00-06:30`."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ALL = frozenset(range(7))
_DAY_MINUTES = 1440
_SPAN = re.compile(r"([0-2]\d):([0-5]\d)-([0-2]\d):([0-5]\d)")
_LOCALTIME = Path("/etc/localtime")
_AHEAD_DAYS = 8
_MAX_WINDOWS = 32


@dataclass(frozen=True, slots=True)
class Window:
    """A span of minutes on some days (0 is Monday); one that ends before it starts goes on into the next day."""

    days: frozenset[int]
    start: int
    end: int

    def holds(self, local: datetime) -> bool:
        """Tell whether a local time lies in it."""
        minute, day = local.hour * 60 + local.minute, local.weekday()
        if self.start < self.end:
            return day in self.days and self.start <= minute < self.end
        return (day in self.days and minute >= self.start) or ((day - 1) % 7 in self.days and minute < self.end)


def parse(text: str) -> Window:
    """Read one window. Raises ValueError."""
    words = text.lower().split()
    found = _SPAN.fullmatch(words[-1]) if words and len(words) <= 2 else None  # noqa: PLR2004  days, then the span
    if found is None:
        raise ValueError(f"{text[:60]!r} is no window; write one such as 'mon-fri 22:00-07:00' or '23:00-06:30'")
    start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
    if start >= _DAY_MINUTES or end > _DAY_MINUTES or start == end:
        raise ValueError(f"{text[:60]!r}: times go from 00:00 to 24:00, and a window has a length")
    return Window(_days(words[0]) if len(words) > 1 else _ALL, start, end)


def parse_all(texts: Sequence[str]) -> tuple[Window, ...]:
    """Read several windows. Raises ValueError."""
    if len(texts) > _MAX_WINDOWS:
        raise ValueError(f"more than {_MAX_WINDOWS} windows")
    return tuple(parse(text) for text in texts)


def is_within(windows: Sequence[Window], *, now: datetime, zone: tzinfo) -> bool:
    """Tell whether `now` lies in one of them, by the zone's clock."""
    local = now.astimezone(zone)
    return any(window.holds(local) for window in windows)


def next_change(
    windows: Sequence[Window], question: Callable[[datetime], object], *, now: datetime, zone: tzinfo
) -> datetime | None:
    """Return when `question` next answers differently, within eight days; None where it does not."""
    present = question(now)
    return next((at for at in sorted(_edges(windows, now, zone)) if at > now and question(at) != present), None)


def machine_zone(name: str = "") -> tzinfo:
    """The zone by name, else the machine's own (TZ, then /etc/localtime), else UTC. Raises ValueError."""
    name = name or os.environ.get("TZ", "").lstrip(":")
    if name:
        try:
            return ZoneInfo(name)
        except (KeyError, OSError):
            raise ValueError(f"there is no time zone {name[:60]!r}") from None
    try:
        with _LOCALTIME.open("rb") as file:
            return ZoneInfo.from_file(file, key=_zone_name())
    except (OSError, ValueError):
        return UTC


def _zone_name() -> str:
    """The name behind /etc/localtime, where it is the usual link."""
    target = str(_LOCALTIME.resolve())
    return target.partition("zoneinfo/")[2] or "local time"


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"{part[:20]!r} is no day of the week; they are {', '.join(DAYS)}")
        start, end = DAYS.index(first), DAYS.index(last or first)
        found.update(day % 7 for day in range(start, end + 1 if end >= start else end + 8))
    return frozenset(found)


def _edges(windows: Sequence[Window], now: datetime, zone: tzinfo) -> Iterator[datetime]:
    """Every moment at which an answer can change: the windows' ends, and whole hours, at which clocks are put."""
    midnight = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    minutes = {minute for window in windows for minute in (window.start, window.end)}
    for day in range(_AHEAD_DAYS + 1):
        for minute in sorted(minutes | set(range(0, _DAY_MINUTES, 60))):
            naive = midnight + timedelta(days=day, minutes=minute)
            yield naive.replace(tzinfo=zone).astimezone(UTC)
            yield naive.replace(tzinfo=zone, fold=1).astimezone(UTC)
