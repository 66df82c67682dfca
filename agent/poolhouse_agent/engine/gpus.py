"""Which GPUs an engine may use: the owner's choice, by UUID, never a lost, cut up or taken one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from poolhouse_common import gpu_faults

from poolhouse_agent.errors import EngineError
from poolhouse_agent.nvml.inventory import GpuReport

_UNFIT = gpu_faults.UNFIT
# There are GPUs, and none can be used: an engine without any would be the wrong one.
_BROKEN = (gpu_faults.UNFIT | gpu_faults.LIBRARY) - {"nvml_library_missing", "container_without_gpu"}
_FREED_WITHIN_S = 20.0
_LOOK_S = 2.0


@dataclass(slots=True)
class GpuChoice:
    """Hands out GPUs of the latest report; `taken` is by engine. `read` asks the driver anew."""

    latest: Callable[[], GpuReport]
    read: Callable[[], Awaitable[GpuReport]] | None = None
    taken: dict[str, tuple[str, ...]] = field(default_factory=dict)
    freed_within_s: float = _FREED_WITHIN_S

    def pick(self, listed: Sequence[str], *, count: int, owner: str, wanted: Sequence[str] = ()) -> tuple[str, ...]:
        """Return `count` UUIDs for `owner`, of those the pool wants and the machine's owner lists.

        None where the machine has no GPU at all. Raises EngineError.
        """
        report = self.latest()
        unfit = {error["detail"]: error["code"] for error in report.errors if error["code"] in _UNFIT}
        present = [str(gpu["uuid"]) for gpu in report.gpus]
        if not present and not listed and not wanted:
            if broken := next((error for error in report.errors if error["code"] in _BROKEN), None):
                raise EngineError(broken["code"], broken["detail"])
            return ()
        for uuid in (*listed, *wanted):
            if uuid not in present or uuid in unfit:
                raise EngineError(unfit.get(uuid, "gpu_not_found"), uuid)
        if refused := next((uuid for uuid in wanted if listed and uuid not in listed), None):
            raise EngineError("gpu_not_listed", refused)
        others = {uuid for who, uuids in self.taken.items() if who != owner for uuid in uuids}
        usable = [uuid for uuid in wanted or listed or present if uuid not in unfit]
        free = [uuid for uuid in usable if uuid not in others]
        if len(free) < count:
            code = "gpu_taken" if len(usable) >= count else next(iter(unfit.values()), "tensor_parallel_invalid")
            raise EngineError(code, f"{count} GPUs are wanted, {len(free)} are free")
        self.taken[owner] = tuple(free[:count])
        return self.taken[owner]

    @property
    def is_empty(self) -> bool:
        """Whether the machine has no GPU at all."""
        return not self.latest().gpus

    def has_free(self, listed: Sequence[str], *, count: int, wanted: Sequence[str] = ()) -> bool:
        """Tell whether `pick` would find as many that no engine holds."""
        try:
            self.pick(listed, count=count, owner="", wanted=wanted)
        except EngineError:
            return False
        self.release("")
        return True

    def take(self, owner: str, uuids: Sequence[str]) -> None:
        """Note what an adopted engine holds."""
        self.taken[owner] = tuple(uuids)

    def release(self, owner: str) -> None:
        """Take the GPUs back."""
        self.taken.pop(owner, None)

    async def require_free(self, uuids: Sequence[str], *, share: float) -> None:
        """Require that `share` of each GPU's memory is free; what was just freed may take seconds to show.

        Raises EngineError `gpu_in_use` (a process holds it) or `gpu_memory_leaked` (none does, and yet it is gone).
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self.freed_within_s
        while uuids:
            report = await self.read() if self.read is not None else self.latest()
            short = next((gpu for gpu in report.gpus if gpu.get("uuid") in uuids and not _has_room(gpu, share)), None)
            if short is None:
                return
            if loop.time() >= until:
                raise _in_the_way(short)
            await asyncio.sleep(_LOOK_S)


def _has_room(gpu: dict[str, Any], share: float) -> bool:
    values = gpu.get("values", {})
    total, free = gpu.get("memory_bytes"), values.get("memory_free_bytes")
    if not isinstance(total, int) or not isinstance(free, int):
        return True  # unknown is not full: the engine finds out
    return free >= total * share


def _in_the_way(gpu: dict[str, Any]) -> EngineError:
    values = gpu.get("values", {})
    used_gib = int(values.get("memory_used_bytes") or 0) / (1 << 30)
    holders = [str(one.get("pid")) for one in values.get("processes") or [] if isinstance(one, dict)]
    if holders:
        return EngineError("gpu_in_use", f"{gpu['uuid']}: {used_gib:.1f} GiB held by process {', '.join(holders[:8])}")
    return EngineError("gpu_memory_leaked", f"{gpu['uuid']}: {used_gib:.1f} GiB held by no process")
