"""How many bytes of weights this machine may still fetch, by the owner's day and month."""

import fcntl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from poolhouse_agent.errors import EngineError
from poolhouse_agent.owner import amounts
from poolhouse_agent.owner.rules import OwnerRules
from poolhouse_agent.state import State

FILE = "downloads.json"
_KEPT_DAYS = 62


@dataclass(frozen=True, slots=True)
class Spent:
    """Bytes fetched today and this month, by the owner's calendar."""

    day_bytes: int
    month_bytes: int


def spent(state: State, rules: OwnerRules, *, now: datetime) -> Spent:
    """Return what was fetched so far. Raises ConfigError."""
    days, today = _days(state), _day(rules, now)
    month = sum(count for day, count in days.items() if day[:7] == today[:7])
    return Spent(days.get(today, 0), month)


def left_bytes(state: State, rules: OwnerRules, *, now: datetime) -> int | None:
    """Return how much may still be fetched now; None where the owner sets no limit. Raises ConfigError."""
    so_far = spent(state, rules, now=now)
    left = [
        limit - used
        for limit, used in (
            (rules.download_day_bytes, so_far.day_bytes),
            (rules.download_month_bytes, so_far.month_bytes),
        )
        if limit is not None
    ]
    return max(0, min(left)) if left else None


def require_room(state: State, rules: OwnerRules, *, wanted_bytes: int, now: datetime) -> None:
    """Refuse a download that would go beyond what is left. Raises EngineError `download_quota_reached`, ConfigError."""
    left = left_bytes(state, rules, now=now)
    if left is not None and wanted_bytes > left:
        need, have = amounts.size_text(wanted_bytes), amounts.size_text(left)
        again = resets_at(rules, now=now).isoformat(timespec="minutes")
        detail = f"{need} are wanted, {have} are left of the owner's quota until {again} at least"
        raise EngineError("download_quota_reached", detail)


def note(state: State, rules: OwnerRules, *, count: int, now: datetime) -> None:
    """Add bytes that were fetched. Safe beside another process that does the same. Raises ConfigError."""
    with (state.folder / "downloads.lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        days, today = dict(_days(state)), _day(rules, now)
        days[today] = days.get(today, 0) + count
        oldest = _day(rules, now - timedelta(days=_KEPT_DAYS))
        state.write(FILE, {day: number for day, number in days.items() if day > oldest})


def resets_at(rules: OwnerRules, *, now: datetime) -> datetime:
    """When the owner's next day begins."""
    tomorrow = now.astimezone(rules.zone).date() + timedelta(days=1)
    return datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=rules.zone)


def _days(state: State) -> Mapping[str, int]:
    found = state.read(FILE) or {}
    return {str(day): count for day, count in found.items() if type(count) is int and count >= 0}


def _day(rules: OwnerRules, now: datetime) -> str:
    return now.astimezone(rules.zone).date().isoformat()
