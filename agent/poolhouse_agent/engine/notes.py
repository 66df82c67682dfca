"""What is written down of a running engine, so that a later agent finds, adopts or ends it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from poolhouse_agent.engine import host


@dataclass(frozen=True, slots=True)
class Note:
    """One engine's processes: the host, the leader it started, the mark all of them carry, and what was ordered."""

    folder: Path
    host: int
    host_started: int
    pid: int
    started: int
    mark: str
    cleanup: tuple[str, ...] = ()
    ordered: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return the note in the folder; None where there is none, or one that a crash tore."""
        try:
            raw = json.loads((folder / host.NOTE).read_text(encoding="utf-8"))
            return cls(
                folder=folder,
                host=int(raw.get("host", 0)),
                host_started=int(raw.get("host_started", 0)),
                pid=int(raw["pid"]),
                started=int(raw.get("started", 0)),
                mark=str(raw["mark"]),
                cleanup=tuple(str(word) for word in raw.get("cleanup", ())),
                ordered=raw,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def is_live(self) -> bool:
        """Whether host and leader run, and are the ones that were written down."""
        return _is(self.host, self.host_started) and _is(self.pid, self.started)

    def remove(self) -> None:
        """Forget the engine."""
        (self.folder / host.NOTE).unlink(missing_ok=True)


def all_notes(engines: Path) -> list[Note]:
    """The notes below the folder of engines; torn ones are removed."""
    found = []
    for path in sorted(engines.glob(f"*/{host.NOTE}")):
        note = Note.read(path.parent)
        if note is None:
            path.unlink(missing_ok=True)
        else:
            found.append(note)
    return found


def _is(pid: int, started: int) -> bool:
    return pid > 0 and started > 0 and host.started_at(pid) == started and not host.is_ended(pid)
