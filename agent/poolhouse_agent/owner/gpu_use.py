"""Whose processes use the GPUs: this agent's and its engines', or the owner's."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolhouse_agent.owner.rules import OwnerRules

_PROC = Path("/proc")
_OUR_UNITS = ("poolhouse-engine", "poolhouse-agent")
_DEEPEST = 64
_STAT_FIELDS = 4  # of those after the name: state, parent, group, session
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Use:
    """A process of the owner's on one GPU; `memory_bytes` None where the driver does not say."""

    gpu: str
    pid: int
    name: str
    memory_bytes: int | None

    def __str__(self) -> str:
        memory = "" if self.memory_bytes is None else f" with {self.memory_bytes // _MIB} MiB"
        return f"{self.name} (process {self.pid}){memory}"


def owners_uses(gpus: Iterable[dict[str, Any]], *, rules: OwnerRules, leaders: Iterable[int]) -> list[Use]:
    """Return the uses that are not ours: not below this agent or an engine's `leaders`, nor in a unit of ours.

    A process that /proc does not show (another container's) is nobody's: our own engine may look like that.
    """
    ours = {os.getpid(), *leaders}
    return [
        use
        for use in _uses(gpus)
        if use.name
        and use.name not in rules.yield_ignored
        and (use.memory_bytes is None or use.memory_bytes >= rules.yield_bytes)
        and not _is_ours(use.pid, ours)
    ]


def engine_leaders(engines: Path) -> list[int]:
    """The processes that lead running engines, from the notes below `engines`; a torn note names nobody."""
    found: list[int] = []
    for note in sorted(engines.glob("*/process.json")):
        try:
            written = json.loads(note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(written, dict):
            found += [pid for pid in (written.get("pid"), written.get("host")) if type(pid) is int and pid > 1]
    return found


def _uses(gpus: Iterable[dict[str, Any]]) -> Iterator[Use]:
    for gpu in gpus:
        running = gpu.get("values", {}).get("processes") or ()
        for process in running:
            pid = int(process.get("pid", 0))
            yield Use(str(gpu.get("uuid", "")), pid, _name(pid), process.get("memory_bytes"))


def _is_ours(pid: int, ours: set[int]) -> bool:
    if any(unit in _read(pid, "cgroup") for unit in _OUR_UNITS):
        return True
    return any(step in ours for step in _line(pid))


def _line(pid: int) -> Iterator[int]:
    """The process, its group, its session and the same of its parents, as far as /proc shows them."""
    for _ in range(_DEEPEST):
        fields = _read(pid, "stat").rpartition(")")[2].split()
        if len(fields) < _STAT_FIELDS:
            return
        parent, group, session = (int(field) for field in fields[1:_STAT_FIELDS])
        yield from (pid, group, session)
        if parent <= 1:
            return
        pid = parent


def _name(pid: int) -> str:
    return _read(pid, "comm").strip()


def _read(pid: int, file: str) -> str:
    try:
        return (_PROC / str(pid) / file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
