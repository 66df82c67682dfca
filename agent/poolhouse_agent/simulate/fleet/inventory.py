"""The GPUs of a simulated node, for as long as they are there."""

import uuid
from dataclasses import replace
from typing import Any

from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.simulate.fleet.conditions import Conditions
from poolhouse_agent.simulate.inventory import SimulatedInventory

# How an 80 GB card is cut in two: name, share of memory and of multiprocessors in sevenths, the GPU instance's number.
_SLICES = (("3g.40gb", 4, 3, 1), ("2g.20gb", 2, 2, 5))
_EIGHTHS = 8
_MULTIPROCESSORS_OF_ONE = 14


class FleetInventory:
    """The profile's report: cut into slices where the node is partitioned, less a GPU that has fallen off the bus."""

    def __init__(self, conditions: Conditions, *, node: str) -> None:
        self._conditions = conditions
        self._whole = SimulatedInventory(conditions.gpus, node=node)
        self.latest: GpuReport = self._judged()

    async def read(self) -> GpuReport:
        """Look again."""
        self.latest = self._judged()
        return self.latest

    def _judged(self) -> GpuReport:
        report = self._whole.latest
        if self._conditions.kind.is_partitioned:
            report = replace(report, gpus=tuple(_cut(gpu) for gpu in report.gpus))
            report = _faulty(report, "mig_enabled", [gpu["uuid"] for gpu in report.gpus])
        if self._conditions.has_lost_gpu and report.gpus:
            *kept, lost = report.gpus
            report = _faulty(replace(report, gpus=tuple(kept)), "gpu_is_lost", [lost["uuid"]])
        return report


def _faulty(report: GpuReport, code: str, uuids: list[str]) -> GpuReport:
    errors = tuple({"code": code, "detail": uuid} for uuid in uuids)
    return replace(report, errors=(*report.errors, *errors))


def _cut(gpu: dict[str, Any]) -> dict[str, Any]:
    """The same GPU in MIG mode: each slice has a UUID and memory of its own."""
    slices = [_slice(gpu, index, *cut) for index, cut in enumerate(_SLICES)]
    return {**gpu, "values": {**gpu["values"], "mig": 1}, "instances": slices}


def _slice(gpu: dict[str, Any], index: int, cut: str, eighths: int, sevenths: int, instance: int) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, gpu['uuid'] + cut)}",
        "name": f"{gpu['name']} MIG {cut}",
        "memory_bytes": gpu["memory_bytes"] * eighths // _EIGHTHS,
        "gpu_instance": instance,
        "compute_instance": 0,
        "multiprocessors": sevenths * _MULTIPROCESSORS_OF_ONE,
        "missing": {},
    }
