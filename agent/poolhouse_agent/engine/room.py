"""Whether a second engine fits beside the one that runs, so that a change needs no gap."""

import asyncio
from pathlib import Path

from poolhouse_agent.engine import processes, vllm_flags
from poolhouse_agent.engine.instance import Instance
from poolhouse_agent.engine.notes import Note
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.protocol.messages import Desired

_MEMINFO = Path("/proc/meminfo")
_KIB = 1024
_MARGIN = 1.3  # loading takes more than serving


async def has_room_beside(wanted: Desired, workshop: Workshop, running: Instance) -> bool:
    """Tell whether GPUs, or on a machine without any the memory, take a second engine."""
    if wanted.engine != "vllm":
        return True
    if workshop.gpus.is_empty:
        return await asyncio.to_thread(_memory_takes, running.folder)
    owned = workshop.config.models.get(wanted.model)
    return workshop.gpus.has_free(
        owned.gpus if owned else (), count=vllm_flags.gpus_wanted(wanted), wanted=vllm_flags.wanted_uuids(wanted)
    )


def _memory_takes(folder: Path) -> bool:
    note = Note.read(folder)
    if note is None:
        return False
    used = sum(_resident_bytes(pid) for pid in processes.session_members(note.pid))
    return 0 < used * _MARGIN < _available_bytes()


def _resident_bytes(pid: int) -> int:
    return _kib(Path(f"/proc/{pid}/status"), "VmRSS:") * _KIB


def _available_bytes() -> int:
    return _kib(_MEMINFO, "MemAvailable:") * _KIB


def _kib(path: Path, name: str) -> int:
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
