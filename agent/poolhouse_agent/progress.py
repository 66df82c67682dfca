"""Bars on a terminal: what is being measured, how far it is, how long it still takes."""

import sys
import time
from typing import Final

from poolhouse_agent.benchmarks.step import Step

_WIDTH: Final = 24
_EVERY_S: Final = 0.1
_WORDS = 34


class Bars:
    """Draws to stderr, and only where that is a terminal; stdout stays for results."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._title = ""
        self._drawn_at = 0.0

    def begin(self, step: Step, number: int, count: int) -> None:
        """Name the step."""
        self._title = f"{number}/{count} {step.title}"
        self._draw(0.0)

    def say(self, share: float) -> None:
        """Move the bar, ten times a second at most."""
        if time.monotonic() - self._drawn_at >= _EVERY_S:
            self._draw(share)

    def end(self) -> None:
        """Take the bar away."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _draw(self, share: float) -> None:
        self._drawn_at = time.monotonic()
        if self._is_shown:
            sys.stderr.write("\r\x1b[K" + bar(self._title, share))
            sys.stderr.flush()


def bar(title: str, share: float) -> str:
    """Return `3/17 matrix product, bf16     [#########···············]  38 %`."""
    share = min(1.0, max(0.0, share))
    full = round(_WIDTH * share)
    return f"{title[:_WORDS]:<{_WORDS}} [{'#' * full}{'.' * (_WIDTH - full)}] {100 * share:3.0f} %"
