"""Whether a node may be tried: faults open its breaker, being busy only delays it, a customer's error is neutral."""

from collections import deque
from enum import Enum
from typing import Final

FAULTS_TO_OPEN: Final = 5
FAULT_WINDOW_S: Final = 60.0
OPEN_S: Final = 30.0
SUCCESSES_TO_CLOSE: Final = 2
_MAX_BACKOFF_S: Final = 5.0


class Verdict(Enum):
    """What one attempt says about its node."""

    SUCCESS = "success"
    FAULT = "fault"
    BACKPRESSURE = "backpressure"
    NEUTRAL = "neutral"


class Breaker:
    """The breaker of one node. Times are of a monotonic clock, in seconds."""

    __slots__ = ("_busy_until", "_faults", "_is_probing", "_opened_at", "_successes")

    def __init__(self) -> None:
        self._faults: deque[float] = deque(maxlen=FAULTS_TO_OPEN)
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

    def enter(self) -> None:
        """Note that an attempt begins; on an open breaker it is the one probe."""
        if self._opened_at is not None:
            self._is_probing = True

    def note(self, verdict: Verdict, now: float, *, backoff_s: float = 0.5) -> None:
        """Take the verdict of an attempt that had entered."""
        self._is_probing = False
        if verdict is Verdict.FAULT:
            self._fault(now)
        elif verdict is Verdict.BACKPRESSURE:
            self._busy_until = now + min(max(backoff_s, 0.0), _MAX_BACKOFF_S)
        elif verdict is Verdict.SUCCESS:
            self._succeed()

    def _fault(self, now: float) -> None:
        self._successes = 0
        if self._opened_at is not None:
            self._opened_at = now
            return
        self._faults.append(now)
        if len(self._faults) == FAULTS_TO_OPEN and now - self._faults[0] <= FAULT_WINDOW_S:
            self._opened_at = now
            self._faults.clear()

    def _succeed(self) -> None:
        if self._opened_at is None:
            return
        self._successes += 1
        if self._successes >= SUCCESSES_TO_CLOSE:
            self._opened_at = None
            self._successes = 0
