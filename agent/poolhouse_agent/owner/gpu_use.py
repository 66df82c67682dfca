"""Whose processes use the GPUs: this agent's and its engines', or the owner's."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolhouse_agent.owner.rules import OwnerRules

_PROC = Path("/proc")
# Written by the room of engines, which stands above this one.
NOTE, ID_FILE = "process.json", "container.id"
_OUR_UNITS = ("poolhouse-engine", "poolhouse-agent")
_DEEPEST = 64
_STAT_FIELDS = 4  # of those after the name: state, parent, group, session
_MIB = 1 << 20
_CONTAINER = re.compile(r"[0-9a-f]{64}")


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


@dataclass(frozen=True, slots=True)
class Ours:
    """What tells our processes: those that lead engines, and control groups, by a part of their name."""

    leaders: frozenset[int] = frozenset()
    groups: tuple[str, ...] = _OUR_UNITS


def owners_uses(gpus: Iterable[dict[str, Any]], *, rules: OwnerRules, ours: Ours) -> list[Use]:
    """Return the uses that are not ours: not below this agent or an engine's leader, nor in a control group of ours.

    A process that /proc does not show (another container's) is nobody's: our own engine may look like that.
    """
    return [
        use
        for use in _uses(gpus)
        if use.name
        and use.name not in rules.yield_ignored
        and (use.memory_bytes is None or use.memory_bytes >= rules.yield_bytes)
        and not _is_ours(use.pid, ours)
    ]


def ours_below(engines: Path) -> Ours:
    """What is ours by the notes below `engines`: engines' processes and containers; a torn note names nobody."""
    found: list[int] = []
    for note in sorted(engines.glob(f"*/{NOTE}")):
        try:
            written = json.loads(note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(written, dict):
            found += [pid for pid in (written.get("pid"), written.get("host")) if type(pid) is int and pid > 1]
    containers = (_text(path).strip() for path in sorted(engines.glob(f"*/{ID_FILE}")))
    return Ours(frozenset(found), (*_OUR_UNITS, *(one for one in containers if _CONTAINER.fullmatch(one))))


def _uses(gpus: Iterable[dict[str, Any]]) -> Iterator[Use]:
    for gpu in gpus:
        running = gpu.get("values", {}).get("processes") or ()
        for process in running:
            pid = int(process.get("pid", 0))
            yield Use(str(gpu.get("uuid", "")), pid, _name(pid), process.get("memory_bytes"))


def _is_ours(pid: int, ours: Ours) -> bool:
    control_groups = _text(_PROC / str(pid) / "cgroup")
    if any(group in control_groups for group in ours.groups):
        return True
    return any(step in ours.leaders or step == os.getpid() for step in _line(pid))


def _line(pid: int) -> Iterator[int]:
    """The process, its group, its session and the same of its parents, as far as /proc shows them."""
    for _ in range(_DEEPEST):
        fields = _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()
        if len(fields) < _STAT_FIELDS:
            return
        parent, group, session = (int(field) for field in fields[1:_STAT_FIELDS])
        yield from (pid, group, session)
        if parent <= 1:
            return
        pid = parent


def _name(pid: int) -> str:
    return _text(_PROC / str(pid) / "comm").strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
