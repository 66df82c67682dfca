"""How much of an account one gateway process is lent, and until when it may trust the loan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

TERM = timedelta(minutes=15)
FENCE = timedelta(minutes=1)
SCARCE_HOLDS = 20
_AHEAD_PART = 20
_BUDGET = "budget/"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a process needs now: `wanted_nano` for all that waits, of which the smallest needs `minimum_nano`.

    `ahead_nano` is what it would like beyond that; `idle_nano` is what it has left, by lease id.
    """

    wanted_nano: int
    minimum_nano: int
    ahead_nano: int = 0
    idle_nano: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reach:
    """What one account has unheld (`free`), and what this process has left of its lease on it (`idle`)."""

    free: int
    idle: int


def grants(accounts: Sequence[Reach], *, ask: Ask) -> list[int]:
    """Return what to add to the lease on each account, in the order they are spent.

    One hold may combine them all; where not even the smallest fits, nothing is lent. Where fewer than twenty of it
    would remain, nothing is lent ahead, so that the rest stays for others.
    """
    within_reach = sum(account.free + account.idle for account in accounts)
    if within_reach < ask.minimum_nano:
        return [0 for _ in accounts]
    target = min(ask.wanted_nano, within_reach)
    spare = within_reach - ask.wanted_nano
    if spare >= SCARCE_HOLDS * ask.minimum_nano:
        target += min(ask.ahead_nano, spare // _AHEAD_PART)
    extras: list[int] = []
    for account in accounts:
        share = min(target, account.free + account.idle)
        target -= share
        extras.append(max(0, share - account.idle))
    return extras


def budget_subject(owner: str) -> str:
    """Return how `leases` announcements name a budget; credit goes by its organization's number."""
    return f"{_BUDGET}{owner}"


def budget_owner(subject: str) -> str | None:
    """Return whose budget an announcement is about; None where it is about credit."""
    return subject.removeprefix(_BUDGET) if subject.startswith(_BUDGET) else None


def returnable_nano(*, granted: int, used: int, unposted: int) -> int:
    """Return what a lease may give back once its last record is in. Raises ValueError where it was overdrawn."""
    rest = granted - used - unposted
    if rest < 0:
        raise ValueError(f"lease of {granted} was overdrawn: used {used}, unposted {unposted}")
    return rest
