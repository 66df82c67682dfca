"""One process of the demo's world: how it is started, watched, killed and started again."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from portal.sandbox import processes

_TAIL_BYTES = 3000


class ChildDied(RuntimeError):
    """A process of the demo ended when it should not have; the message holds the end of its log."""


@dataclass(slots=True)
class Child:
    """A named process with its log. `restarts` counts how often it was started again."""

    name: str
    argv: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    stop_signal: int = signal.SIGTERM
    stop_timeout_s: float = 10.0
    restarts: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int | None:
        """Return the process id while it runs."""
        return self.process.pid if self.process is not None and self.process.poll() is None else None

    def start(self) -> None:
        """Start it; a group that an earlier process of this name left behind is ended first."""
        self._end_group()
        self.process = processes.start(self.argv, log=self.log, environ=self.environ)

    def restart(self) -> None:
        """Start it again after it died."""
        self.restarts += 1
        self.start()

    def stop(self) -> None:
        """Ask it to end, wait, and end its whole group."""
        if self.process is not None:
            processes.stop(self.process, first=self.stop_signal, timeout_s=self.stop_timeout_s)
            self._end_group()

    def require_alive(self) -> None:
        """Raise ChildDied where it has ended."""
        if self.process is not None and self.process.poll() is not None:
            raise ChildDied(f"{self.name} ended with {self.process.returncode}; the end of {self.log}:\n{self.tail()}")

    def tail(self) -> str:
        """Return the last lines of its log."""
        if not self.log.exists():
            return "(no log)"
        return self.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")

    def _end_group(self) -> None:
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
