"""What this process may spend of an owner's limits without asking: pure arithmetic, nothing here waits.

A unit is in exactly one place: shared, in some process's hand, or used. Times are monotonic seconds.
"""

import math
from collections.abc import Iterable
from typing import Final

_MINUTE_S: Final = 60.0
_AHEAD_S: Final = 0.25
_SLICE: Final = 50  # at most a fiftieth of the limit is fetched ahead
_FIRST_AHEAD: Final = 8


class Share:
    """One rate. `hand` is what may be spent at once; infinite where the owner has no such limit."""

    __slots__ = ("_alone", "_base", "ahead", "at", "back", "hand", "level", "low", "recorded", "size", "spent")

    def __init__(self, size: int | None) -> None:
        self.size = size or 0
        self.hand: float = 0 if self.size else math.inf
        self.recorded = 0  # what the others think that we have in hand
        self.back = 0  # to be given back with the next exchange
        self.spent = 0  # used without having been fetched
        self.level = float(self.size)
        self.at = -math.inf
        self.ahead = 0
        self.low = -1
        self._base = 0
        self._alone: _Alone | None = None

    def resize(self, size: int | None) -> None:
        """Take a new limit at once; what was in hand under the old one goes back."""
        if self.size:
            self.back += int(self.hand)
        self.level += (size or 0) - self.size
        self.size = size or 0
        self.hand = 0 if self.size else math.inf
        self.low, self._base = -1, 0
        self._alone = None

    def give(self, units: int) -> None:
        """Take back what was not used: into the hand as far as the others know of it, the rest to them."""
        if not self.size:
            return
        if self._alone is not None:
            own = min(units, self.spent)
            self.spent -= own
            self._alone.level = min(self._alone.size, self._alone.level + own)
            units -= own
        kept = min(units, max(0, self.recorded - int(self.hand)))
        self.hand += kept
        self.back += units - kept

    def shed(self) -> None:
        """Mark all that is in hand for giving back."""
        if self.size:
            self.back += int(self.hand)
            self.hand = self._base = 0
            self.low = -1

    def plan(self, wanted: int, now: float) -> int:
        """Return how much to fetch beyond what is wanted: what a quarter of a second burns, a slice at most."""
        if not self.size:
            return 0
        burned = max(0, self._base - int(self.hand)) / max(now - self.at, 0.001)
        ahead = min(self.size // _SLICE, max(int(burned * _AHEAD_S), _FIRST_AHEAD * wanted))
        self.ahead = max(0, ahead - int(self.hand)) if ahead >= max(wanted, 2) else 0
        self.low = ahead // 2 if self.ahead else -1
        return self.ahead

    def absorb(self, *, stated: int, wanted: int, granted: int, level: float, now: float) -> None:
        """Take an exchange's answer; `stated` was in hand when it was sent, `wanted` is what waiters take of it."""
        if not self.size:
            return
        self.recorded = stated + max(0, granted - wanted)
        self.hand += granted
        self._base = int(self.hand)
        self.level, self.at = level, now
        self._alone = None

    def remaining(self, now: float) -> float:
        """Return what could be spent now, as far as this process knows."""
        if self._alone is not None:
            return self.hand + max(0.0, self._alone.refill(now))
        left = self._shared(now) + self.hand + self.back - self.spent
        return min(self.size, left)

    def wait_s(self, units: float, now: float) -> float:
        """Return after how long the minute has room for `units`."""
        if self._alone is not None:
            return max(0.0, (min(units, self._alone.size) - self._alone.refill(now)) * _MINUTE_S / self._alone.size)
        return max(0.0, (min(units, self.size) - self.remaining(now)) * _MINUTE_S / self.size)

    def reset_s(self, now: float) -> float:
        """Return after how long the limit is whole again."""
        return max(0.0, (self.size - self.remaining(now)) * _MINUTE_S / self.size)

    def take_alone(self, units: int, processes: int, now: float) -> bool:
        """Take from the hand or, with nobody to ask, from this process's part of the limit."""
        if self.hand >= units:
            self.hand -= units
            return True
        if self._alone is None or self._alone.processes != processes:
            level = self._alone.refill(now) if self._alone else self._shared(now) / processes
            self._alone = _Alone(self.size, level, processes, now)
        if not self._alone.take(units, now):
            return False
        self.spent += units
        return True

    def _shared(self, now: float) -> float:
        if self.at == -math.inf:
            return float(self.size)
        level = self.level + (now - self.at) * self.size / _MINUTE_S
        most = self.size - self.recorded
        return min(most, level)


class _Alone:
    """An evenly refilled part of a limit, for a process that cannot reach the others."""

    __slots__ = ("at", "level", "processes", "size")

    def __init__(self, whole: int, level: float, processes: int, now: float) -> None:
        self.processes = processes
        self.size = max(1.0, whole / processes)
        self.level = min(self.size, max(0.0, level))
        self.at = now

    def refill(self, now: float) -> float:
        self.level = min(self.size, self.level + max(0.0, now - self.at) * self.size / _MINUTE_S)
        self.at = now
        return self.level

    def take(self, units: int, now: float) -> bool:
        if self.refill(now) < min(units, self.size):
            return False
        self.level -= units
        return True


class Places:
    """How many requests may run at once. `free` are places that this process holds and that nobody uses."""

    __slots__ = ("free", "rest", "running", "size")

    def __init__(self, size: int | None) -> None:
        self.size = size or 0
        self.free: float = 0 if self.size else math.inf
        self.running = 0
        self.rest = self.size  # what nobody holds, as of the last exchange

    def resize(self, size: int | None) -> None:
        """Take a new limit at once; free places are asked for anew."""
        self.size = size or 0
        self.free = 0 if self.size else math.inf

    def shed(self) -> None:
        """Let go of the free places."""
        if self.size:
            self.free = 0

    @property
    def held(self) -> int:
        """Places that the others cannot have."""
        return self.running + int(self.free) if self.size else 0

    @property
    def is_scarce(self) -> bool:
        """Whether others may be waiting for what is free here."""
        return self.size > 0 and self.rest < max(2, self.size // 10)

    def take_alone(self, processes: int) -> bool:
        """Take a free place or, with nobody to ask, one of this process's part of the limit."""
        if self.free < 1:
            if self.running >= max(1, self.size // processes):
                return False
            self.free += 1
        self.free -= 1
        self.running += 1
        return True

    def plan(self, wanted: int) -> int:
        """Return how many places to fetch beyond those wanted: more where many run, a slice at most."""
        if not self.size:
            return 0
        most = self.size // _SLICE
        ahead = min(most, max(_FIRST_AHEAD * wanted, self.running // 4))
        return max(0, ahead - int(self.free))


def beyond_hand(wanted: Iterable[int], hand: float) -> list[int]:
    """Return what each waiter lacks when those before it take from the hand first."""
    lacking = []
    for units in wanted:
        if hand >= units:
            hand -= units
        else:
            lacking.append(units - int(hand))
            hand = 0
    return lacking
