"""Tells an engine that is stuck from one that nobody looked at."""

from dataclasses import dataclass, field

from poolhouse_agent.engine.metrics import Load


@dataclass(slots=True)
class Stillness:
    """For how many seconds readings have shown requests that run and no token.

    Between two readings at most `longest_gap_s` counts: an agent, or a whole machine, that stood still for a while has
    seen nothing of what lay between.
    """

    longest_gap_s: float
    _seconds: float = field(default=0.0, init=False)
    _before: Load | None = field(default=None, init=False)
    _at: float = field(default=0.0, init=False)

    def note(self, load: Load, *, at: float) -> float:
        """Take a reading; return the seconds. `at` is a time of the loop's clock."""
        before, gap_s = self._before, min(at - self._at, self.longest_gap_s)
        is_still = before is not None and min(before.running, load.running) > 0 and before.progress == load.progress
        self._seconds = self._seconds + gap_s if is_still else 0.0
        self._before, self._at = load, at
        return self._seconds
