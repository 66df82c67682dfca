"""What the driver says of a GPU before, while and after it is put to work."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from poolhouse_agent.nvml.inventory import GpuReport

_EVERY_S = 3.0
_FIELDS = ("temperature_c", "power_mw", "clock_sm_mhz", "clock_memory_mhz", "throttle_reasons")
_MOST = 60


class Inventory(Protocol):
    """Where GPU reports come from."""

    async def read(self) -> GpuReport:
        """Ask again."""
        ...


class Sampler:
    """Reads while something else works; GPUs that are watched at once share the reading."""

    def __init__(self, inventory: Inventory, *, every_s: float = _EVERY_S) -> None:
        self._inventory = inventory
        self._every_s = every_s
        self._watched: dict[str, list[dict[str, Any]]] = {}
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def watching(self, uuid: str) -> AsyncIterator[list[dict[str, Any]]]:
        """Collect samples of one GPU until the block ends; a reading that the driver does not give is left out."""
        samples = self._watched[uuid] = []
        if self._task is None:
            self._task = asyncio.create_task(self._read_for_ever())
        try:
            yield samples
        finally:
            self._watched.pop(uuid, None)
            if not self._watched:
                await self._end()

    async def _end(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _read_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            report = await self._inventory.read()
            for gpu in report.gpus:
                samples = self._watched.get(gpu["uuid"])
                if samples is not None and len(samples) < _MOST:
                    samples.append({"at_s": round(loop.time() - began, 1), **_readings(gpu)})
            await asyncio.sleep(self._every_s)


def _readings(gpu: Mapping[str, Any]) -> dict[str, Any]:
    values = gpu.get("values", {})
    return {name: values[name] for name in _FIELDS if name in values}
