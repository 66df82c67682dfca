"""What the kernel knows of an engine's processes."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from poolhouse_agent.engine import host

_PROC = Path("/proc")
_ENGINE_NAMES = ("VLLM::",)


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    state: str
    group: int
    session: int


def members(leader: int, *, mark: str) -> list[int]:
    """Live processes that carry the mark, or are vLLM's own in the leader's group or session.

    The mark is looked for everywhere: a worker may have a session of its own. vLLM's workers overwrite their
    environment with their titles, so that the name must do there; both together never name a stranger's process.
    """
    found = []
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        entry = _entry(folder)
        if entry is None or entry.state in "ZX":
            continue
        is_near = leader in {entry.group, entry.session}
        if (is_near and entry.name.startswith(_ENGINE_NAMES)) or mark in _environ(folder):
            found.append(int(folder.name))
    return found


def session_members(leader: int) -> list[int]:
    """Live processes of the leader's group or session."""
    found = []
    for folder in _PROC.iterdir():
        entry = _entry(folder) if folder.name.isdigit() else None
        if entry is not None and entry.state not in "ZX" and leader in {entry.group, entry.session}:
            found.append(int(folder.name))
    return found


def signal_one(pid: int, number: signal.Signals, *, started: int | None = None) -> None:
    """Send a signal to one process; with `started`, only where the id still names the process that started then."""
    is_named = started is None or (started > 0 and host.started_at(pid) == started)
    if pid <= 1 or not is_named:  # 0 would be our own group, 1 the machine
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _entry(folder: Path) -> _Entry | None:
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    parts = rest.split()
    return _Entry(name=name, state=parts[0], group=int(parts[2]), session=int(parts[3]))


def _environ(folder: Path) -> set[str]:
    try:
        return set((folder / "environ").read_text(encoding="utf-8", errors="replace").split("\0"))
    except OSError:
        return set()
