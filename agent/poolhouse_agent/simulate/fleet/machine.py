"""The machine below a fleet: read now and then for all its nodes, not by each of them."""

import time
from collections.abc import Callable

from poolhouse_agent import host
from poolhouse_agent.host import HostReport

_FRESH_S = 15.0


class SharedMachine:
    """Answers like `host.report`, at most a heartbeat old."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read_at = clock()
        self._report = host.report()

    def __call__(self) -> HostReport:
        """The readings."""
        if self._clock() - self._read_at >= _FRESH_S:
            self._read_at, self._report = self._clock(), host.report()
        return self._report
