"""The inventory of a simulated node."""

from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.simulate import gpus


class SimulatedInventory:
    """Answers like the real inventory, from a profile."""

    def __init__(self, profile: str, *, node: str) -> None:
        found = gpus.report(profile, node=node)
        self.latest = GpuReport(tuple(found), tuple(gpus.faults(found)), driver="570.133.20", cuda=12080)

    async def read(self) -> GpuReport:
        """Return the same GPUs again."""
        return self.latest
