"""Which GPUs an engine may use: the owner's choice, by UUID, never a lost, cut up or taken one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from poolhouse_agent.errors import EngineError
from poolhouse_agent.nvml.inventory import GpuReport

_UNFIT = frozenset(
    {"gpu_is_lost", "gpu_reset_required", "gpu_not_found", "mig_enabled", "remap_failed", "ecc_uncorrected"}
)


@dataclass(slots=True)
class GpuChoice:
    """Hands out GPUs of the latest report; `taken` is by deployment."""

    latest: Callable[[], GpuReport]
    taken: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def pick(self, listed: Sequence[str], *, count: int, owner: str) -> tuple[str, ...]:
        """Return `count` UUIDs for `owner`; none where the machine has no GPU at all. Raises EngineError."""
        report = self.latest()
        unfit = {error["detail"]: error["code"] for error in report.errors if error["code"] in _UNFIT}
        present = [str(gpu["uuid"]) for gpu in report.gpus]
        if not present and not listed:
            return ()
        others = {uuid for who, uuids in self.taken.items() if who != owner for uuid in uuids}
        for uuid in listed:
            if uuid not in present or uuid in unfit:
                raise EngineError(unfit.get(uuid, "gpu_not_found"), uuid)
        free = [uuid for uuid in listed or present if uuid not in unfit and uuid not in others]
        if len(free) < count:
            raise EngineError(_why(unfit), f"{count} GPUs are wanted, {len(free)} are free")
        self.taken[owner] = tuple(free[:count])
        return self.taken[owner]

    def release(self, owner: str) -> None:
        """Take the GPUs back."""
        self.taken.pop(owner, None)


def _why(unfit: dict[str, str]) -> str:
    return next(iter(unfit.values()), "tensor_parallel_invalid")
