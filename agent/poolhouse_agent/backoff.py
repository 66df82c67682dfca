"""How long to wait before the next try."""

import random


class Backoff:
    """Doubling delays with jitter between `first_s` and `longest_s`."""

    def __init__(self, *, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def reset(self) -> None:
        """Begin again with the first delay."""
        self._next_s = self._first_s

    def next_s(self) -> float:
        """Return the next delay: half to all of its step, so that a fleet does not come back in step."""
        step = self._next_s
        self._next_s = min(self._longest_s, step * 2)
        return step * random.uniform(0.5, 1.0)  # noqa: S311  jitter, not a secret
