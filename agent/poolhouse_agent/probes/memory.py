"""Main memory, its limits, and the shared memory that several GPUs talk through."""

import os
import resource
from pathlib import Path

from poolhouse_agent.probes.reading import Probe, Unknown, fields, known, text

_KIB = 1024


def of_meminfo(field: str) -> Probe:
    """Return a probe of one line of `/proc/meminfo`, in bytes."""

    def probe(root: Path) -> int:
        return int(known(fields(root / "proc/meminfo").get(field)).split()[0]) * _KIB

    return probe


def _limit(root: Path) -> int:
    """What a container or unit may use."""
    limit = text(root / "sys/fs/cgroup/memory.max")
    if limit == "max":
        raise Unknown("no_limit")
    return int(limit)


def _shared(root: Path) -> int:
    """The size of `/dev/shm`: 64 MiB in a container started without `--shm-size`, too little for several GPUs."""
    found = os.statvfs(root / "dev/shm")
    return found.f_frsize * found.f_blocks


def _lockable(_root: Path) -> int:
    """What a process may lock, which pinned copies and NCCL need."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if limit == resource.RLIM_INFINITY:
        raise Unknown("no_limit")
    return limit


FACTS: dict[str, Probe] = {
    "memory_bytes": of_meminfo("MemTotal"),
    "memory_limit_bytes": _limit,
    "swap_bytes": of_meminfo("SwapTotal"),
    "shared_memory_bytes": _shared,
    "lockable_bytes": _lockable,
}
LOAD: dict[str, Probe] = {
    "memory_available_bytes": of_meminfo("MemAvailable"),
    "swap_free_bytes": of_meminfo("SwapFree"),
}
