"""What a process and all that it started have cost so far: CPU seconds and resident memory, from /proc."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_MIB = 1024 * 1024
GATEWAY_CORE, LOAD_CORE = 0, 1


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Start what is started inside on this core alone; with one core there is no choice."""
    allowed = os.sched_getaffinity(0)
    cores = {core} & set(range(os.cpu_count() or 1)) or allowed
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def family(pid: int) -> list[int]:
    """Return the process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text(encoding="ascii").split():
            found += family(int(child))
    return found


def cpu_s(pid: int) -> float:
    """Return the CPU seconds, user and system, that the family has used."""
    return sum(_ticks(member) for member in family(pid)) / _TICKS_A_SECOND


def rss_mib(pid: int) -> float:
    """Return the family's resident memory."""
    pages = sum(int(Path(f"/proc/{member}/statm").read_text(encoding="ascii").split()[1]) for member in family(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
