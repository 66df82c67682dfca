"""Whether a node may be tried: faults open its breaker, being busy only delays it, a customer's error is neutral."""

from collections import deque
from enum import Enum
from typing import Final

FAULTS_TO_OPEN: Final = 5
FAULT_WINDOW_S: Final = 60.0
# A node that serves hundreds between its faults is not shut for the few requests that would break any engine.
MAX_ANSWERS_BETWEEN: Final = 50
OPEN_S: Final = 30.0
SUCCESSES_TO_CLOSE: Final = 2
MAX_BACKOFF_S: Final = 5.0


class Verdict(Enum):
    """What one attempt says about its node."""

    SUCCESS = "success"
    FAULT = "fault"
    BACKPRESSURE = "backpressure"
    NEUTRAL = "neutral"


class Breaker:
    """The breaker of one node. Times are of a monotonic clock, in seconds."""

    __slots__ = ("_answers", "_busy_until", "_faults", "_is_probing", "_opened_at", "_successes")

    def __init__(self) -> None:
        self._faults: deque[tuple[float, int]] = deque(maxlen=FAULTS_TO_OPEN)
        self._answers = 0
        self._opened_at: float | None = None
        self._busy_until = 0.0
        self._is_probing = False
        self._successes = 0

    @property
    def is_closed(self) -> bool:
        """Whether nothing is held against the node."""
        return self._opened_at is None

    def blocks(self, now: float) -> str:
        """Return why the node may not be tried now, or nothing."""
        if self._busy_until > now:
            return "busy"
        if self._opened_at is None:
            return ""
        if now - self._opened_at < OPEN_S or self._is_probing:
            return "breaker"
        return ""

    def frees_in_s(self, now: float) -> float:
        """Return after how long the node may be tried again; a probe that runs has no known end."""
        busy = self._busy_until - now
        opened = 0.0 if self._opened_at is None else self._opened_at + OPEN_S - now
        return max(busy, opened, 0.0)

    def enter(self) -> bool:
        """Note that an attempt begins; return whether it is the one probe of an open breaker."""
        if self._opened_at is None or self._is_probing:
            return False
        self._is_probing = True
        return True

    def note(self, verdict: Verdict, now: float, *, is_probe: bool = False, backoff_s: float = 0.5) -> None:
        """Take the verdict of an attempt that had entered; only the probe speaks for an open breaker."""
        if is_probe:
            self._is_probing = False
        if verdict is Verdict.FAULT:
            self._fault(now, is_probe=is_probe)
        elif verdict is Verdict.BACKPRESSURE:
            self._busy_until = max(self._busy_until, now + clamped(backoff_s))
        elif verdict is Verdict.SUCCESS:
            self._succeed(is_probe=is_probe)

    def _fault(self, now: float, *, is_probe: bool) -> None:
        if self._opened_at is not None:
            if is_probe:
                self._opened_at, self._successes = now, 0
            return
        self._answers += 1
        self._faults.append((now, self._answers))
        began_at, began_with = self._faults[0]
        is_dense = now - began_at <= FAULT_WINDOW_S and self._answers - began_with <= MAX_ANSWERS_BETWEEN
        if len(self._faults) == FAULTS_TO_OPEN and is_dense:
            self._opened_at, self._successes = now, 0
            self._faults.clear()

    def _succeed(self, *, is_probe: bool) -> None:
        if self._opened_at is None:
            self._answers += 1
            return
        if not is_probe:
            return
        self._successes += 1
        if self._successes >= SUCCESSES_TO_CLOSE:
            self._opened_at = None


def clamped(backoff_s: float) -> float:
    """Return how long a node's wish to be left alone is honoured."""
    return min(max(backoff_s, 0.0), MAX_BACKOFF_S)
