"""What the kernel knows of a process group."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_ENGINE_NAMES = ("VLLM::",)


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    state: str
    group: int
    session: int


def members(leader: int, *, mark: str = "") -> list[int]:
    """Live processes of the leader's group or session; with `mark`, only those that prove to be an engine's."""
    found = []
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        entry = _entry(folder)
        if entry is None or entry.state in "ZX" or leader not in {entry.group, entry.session}:
            continue
        if not mark or entry.name.startswith(_ENGINE_NAMES) or mark in _environ(folder):
            found.append(int(folder.name))
    return found


def kill_group(leader: int) -> None:
    """Kill every process of the group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def kill(pid: int) -> None:
    """Kill one process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


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
