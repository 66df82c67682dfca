"""How much of an account one gateway process is lent, and until when it may trust the loan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

TERM = timedelta(minutes=15)
FENCE = timedelta(minutes=1)
SCARCE_HOLDS = 20
_AHEAD_PART = 20


@dataclass(frozen=True, slots=True)
class Ask:
    """What a process needs now: `wanted_nano` for all that waits, of which the smallest needs `minimum_nano`.

    `ahead_nano` is what it would like beyond that; `idle_nano` is what it has left, by lease id.
    """

    wanted_nano: int
    minimum_nano: int
    ahead_nano: int = 0
    idle_nano: Mapping[int, int] = field(default_factory=dict)


def grant_nano(*, free: int, idle: int, wanted: int, ask: Ask) -> int:
    """Return what to add to a lease that has `idle` left, from an account with `free` unheld, for `wanted` of the ask.

    Where fewer than twenty of the smallest hold would remain, nothing is lent ahead, so that the rest stays for others.
    """
    within_reach = free + idle
    if within_reach < ask.minimum_nano:
        return 0
    spare = within_reach - wanted
    target = min(wanted, within_reach)
    if spare >= SCARCE_HOLDS * ask.minimum_nano:
        target += min(ask.ahead_nano, spare // _AHEAD_PART)
    return max(0, target - idle)


def returnable_nano(*, granted: int, used: int, unposted: int) -> int:
    """Return what a lease may give back once its last record is in. Raises ValueError where it was overdrawn."""
    rest = granted - used - unposted
    if rest < 0:
        raise ValueError(f"lease of {granted} was overdrawn: used {used}, unposted {unposted}")
    return rest
