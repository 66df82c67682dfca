"""Keeps an eye on the GPUs while the agent runs: nobody waits for a driver that hangs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from poolhouse_agent.nvml.inventory import GpuReport, Inventory
from poolhouse_agent.nvml.xids import XidWatch

_PATIENCE_S = 5.0


class Lookout:
    """Reads in the background and hears Xids; `latest` is the last report that came to its end."""

    def __init__(self, inventory: Inventory, *, patience_s: float = _PATIENCE_S) -> None:
        self._inventory = inventory
        self._patience_s = patience_s
        self._reading: asyncio.Task[GpuReport] | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def latest(self) -> GpuReport:
        """The last report."""
        return self._inventory.latest

    async def read(self) -> GpuReport:
        """Begin a reading unless one goes on; wait for it a little, and return the last report."""
        if self._listening is None and self._inventory.xids is not None:
            self._listening = asyncio.create_task(self._inventory.xids.run())
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._inventory.read())
        await asyncio.wait({self._reading}, timeout=self._patience_s)
        return self.latest

    async def close(self) -> None:
        """End what was started."""
        tasks = {task for task in (self._reading, self._listening) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@contextlib.asynccontextmanager
async def watching(*, library: str = "") -> AsyncIterator[Lookout]:
    """Give a lookout that listens for Xids from its first reading on; close it afterwards."""
    lookout = Lookout(Inventory(library=library, xids=XidWatch(library=library)))
    try:
        yield lookout
    finally:
        await lookout.close()
