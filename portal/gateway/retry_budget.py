"""How many retries there may be: a tenth of the requests, so that a sick pool is not hit three times as hard."""

from collections.abc import Callable
from typing import Final

SHARE: Final = 0.1
WINDOW_S: Final = 30.0
# A lone request may be retried too: with few requests a tenth of them is less than one.
FLOOR: Final = 10
_PROCESS_FLOORS: Final = 3


class SlidingCount:
    """How much happened in the last window: the running one, and of the one before the part that still counts."""

    __slots__ = ("_before", "_began_at", "_now")

    def __init__(self) -> None:
        self._began_at = float("-inf")
        self._now = 0
        self._before = 0

    def add(self, now: float) -> None:
        """Count one."""
        self._roll(now)
        self._now += 1

    def take_back(self) -> None:
        """Uncount one of the running window."""
        self._now = max(0, self._now - 1)

    def total(self, now: float) -> float:
        """Return the count of the last window."""
        self._roll(now)
        return self._now + self._before * (1.0 - (now - self._began_at) / WINDOW_S)

    def _roll(self, now: float) -> None:
        passed = now - self._began_at
        if passed < WINDOW_S:
            return
        self._before = self._now if passed < 2 * WINDOW_S else 0
        self._now = 0
        self._began_at = self._began_at + WINDOW_S if passed < 2 * WINDOW_S else now


class _Account:
    __slots__ = ("floor", "requests", "retries")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.requests = SlidingCount()
        self.retries = SlidingCount()

    def has_left(self, now: float) -> bool:
        return self.retries.total(now) + 1 <= max(self.floor, SHARE * self.requests.total(now))


class RetryBudget:
    """The retries of this process, together and for each model. The hunt for a node is the only one who takes of them.

    `floor` is how many a model may have in a window at least; all models together have three times that.
    """

    def __init__(self, clock: Callable[[], float], *, floor: int = FLOOR) -> None:
        self._clock = clock
        self._floor = floor
        self._process = _Account(floor * _PROCESS_FLOORS)
        self._models: dict[int, _Account] = {}

    def note_request(self, model_id: int) -> None:
        """Count a request, however many attempts it takes."""
        now = self._clock()
        self._process.requests.add(now)
        self._model(model_id).requests.add(now)

    def take(self, model_id: int) -> bool:
        """Take one retry; False where none is left, and then none is taken."""
        now = self._clock()
        model = self._model(model_id)
        if not (self._process.has_left(now) and model.has_left(now)):
            return False
        self._process.retries.add(now)
        model.retries.add(now)
        return True

    def put_back(self, model_id: int) -> None:
        """Return a retry that was taken and not made: there was no node for it."""
        self._process.retries.take_back()
        self._model(model_id).retries.take_back()

    def _model(self, model_id: int) -> _Account:
        account = self._models.get(model_id)
        if account is None:
            account = self._models[model_id] = _Account(self._floor)
        return account
