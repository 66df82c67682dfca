"""The GPUs of a simulated node, for as long as they are there."""

from dataclasses import replace

from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.simulate.fleet.conditions import Conditions
from poolhouse_agent.simulate.inventory import SimulatedInventory


class FleetInventory:
    """The profile's report, less a GPU once that has fallen off the bus."""

    def __init__(self, conditions: Conditions, *, node: str) -> None:
        self._conditions = conditions
        self._whole = SimulatedInventory(conditions.gpus, node=node)
        self.latest: GpuReport = self._whole.latest

    async def read(self) -> GpuReport:
        """Look again."""
        report = await self._whole.read()
        if self._conditions.has_lost_gpu and report.gpus:
            *kept, lost = report.gpus
            error = {"code": "gpu_is_lost", "detail": str(lost["uuid"])}
            report = replace(report, gpus=tuple(kept), errors=(*report.errors, error))
        self.latest = report
        return report
