"""Keeps an eye on the GPUs while the agent runs: nobody waits for a driver that hangs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self

from poolhouse_agent.nvml.inventory import GpuReport, Inventory
from poolhouse_agent.nvml.xids import XidWatch

_PATIENCE_S = 5.0


class Lookout:
    """Reads in the background and hears Xids; `latest` is the last report that came to its end."""

    def __init__(self, inventory: Inventory, *, patience_s: float = _PATIENCE_S) -> None:
        self._inventory = inventory
        self._patience_s = patience_s
        self._reading: asyncio.Task[GpuReport] | None = None

    @property
    def latest(self) -> GpuReport:
        """The last report."""
        return self._inventory.latest

    async def read(self) -> GpuReport:
        """Begin a reading unless one goes on; wait for it a little, and return the last report."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._inventory.read())
        await asyncio.wait({self._reading}, timeout=self._patience_s)
        return self.latest

    @classmethod
    @contextlib.asynccontextmanager
    async def watching(cls, *, library: str = "") -> AsyncIterator[Self]:
        """Give one that listens for Xids; end what it started afterwards."""
        xids = XidWatch(library=library)
        lookout = cls(Inventory(library=library, xids=xids))
        listening = asyncio.create_task(xids.run())
        try:
            yield lookout
        finally:
            tasks = {listening, *([lookout._reading] if lookout._reading else [])}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
