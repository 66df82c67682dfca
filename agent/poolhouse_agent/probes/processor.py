"""The processors."""

import os
import re
from pathlib import Path

from poolhouse_agent.probes.reading import Probe, Unknown, fields, known, text

_CORE = re.compile(r"^core id\s*:\s*(\d+)", re.MULTILINE)
_SOCKET = re.compile(r"^physical id\s*:\s*(\d+)", re.MULTILINE)
_NODE = re.compile(r"node\d+")


def _model(root: Path) -> str:
    found = fields(root / "proc/cpuinfo")
    return known(found.get("model name") or found.get("Model") or found.get("Hardware"))[:80]


def _count(_root: Path) -> int:
    """Logical processors that this process may use."""
    return len(os.sched_getaffinity(0))


def _cores(root: Path) -> int:
    """Physical cores: distinct pairs of socket and core; ARM kernels name neither."""
    blocks = text(root / "proc/cpuinfo").split("\n\n")
    pairs = {(socket[1], core[1]) for one in blocks if (socket := _SOCKET.search(one)) and (core := _CORE.search(one))}
    if not pairs:
        raise Unknown("not_reported")
    return len(pairs)


def _sockets(root: Path) -> int:
    found = set(_SOCKET.findall(text(root / "proc/cpuinfo")))
    if not found:
        raise Unknown("not_reported")
    return len(found)


def _limit_milli(root: Path) -> int:
    """What a container or unit may use, in thousandths of a processor."""
    quota, period = text(root / "sys/fs/cgroup/cpu.max").split()
    if quota == "max":
        raise Unknown("no_limit")
    return int(quota) * 1000 // int(period)


def _numa_nodes(root: Path) -> int:
    return sum(1 for entry in (root / "sys/devices/system/node").iterdir() if _NODE.fullmatch(entry.name))


def _load(root: Path) -> float:
    return round(float(text(root / "proc/loadavg").split()[0]), 2)


FACTS: dict[str, Probe] = {
    "cpu_model": _model,
    "cpu_count": _count,
    "cpu_cores": _cores,
    "cpu_sockets": _sockets,
    "cpu_limit_milli": _limit_milli,
    "numa_nodes": _numa_nodes,
}
LOAD: dict[str, Probe] = {"load_1m": _load}
