"""The GPUs of this machine, read in a child with a deadline: a driver that hangs must not hang the agent."""

import asyncio
import contextlib
import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import poolhouse_agent

log = logging.getLogger(__name__)

DEADLINE_S = 15.0
_MAX_BYTES = 1 << 20
_KILL_S = 2.0


@dataclass(frozen=True, slots=True)
class GpuReport:
    """What is known of the GPUs, and what went wrong while asking."""

    gpus: tuple[dict[str, Any], ...] = ()
    errors: tuple[dict[str, str], ...] = ()
    driver: str = ""
    cuda: int | None = None


class Inventory:
    """Asks NVML; `latest` is the last answer."""

    def __init__(self, *, library: str = "", deadline_s: float = DEADLINE_S) -> None:
        self._library = library
        self._deadline_s = deadline_s
        self._hung: asyncio.subprocess.Process | None = None
        self.latest = GpuReport()

    async def read(self) -> GpuReport:
        """Ask once more. Never raises: what fails is an error in the report."""
        if self._hung is not None and self._hung.returncode is None:
            self.latest = _failed("nvml_hung", "an earlier call has still not come back")
            return self.latest
        self._hung = None
        self.latest = await self._ask()
        return self.latest

    async def _ask(self) -> GpuReport:
        try:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "poolhouse_agent.nvml.child", *([self._library] if self._library else []),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                env=_environment(), limit=_MAX_BYTES,
            )  # fmt: skip
        except OSError as error:
            return _failed("nvml_crashed", str(error))
        try:
            async with asyncio.timeout(self._deadline_s):
                output, _ = await child.communicate()
        except TimeoutError:
            await self._give_up(child)
            return _failed("nvml_hung", f"no answer within {self._deadline_s:.0f} s")
        return _parse(output, child.returncode or 0)

    async def _give_up(self, child: asyncio.subprocess.Process) -> None:
        """Kill the child; remember it where the kernel does not let it die."""
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        try:
            async with asyncio.timeout(_KILL_S):
                await child.wait()
        except TimeoutError:
            self._hung = child


def _parse(output: bytes, status: int) -> GpuReport:
    try:
        answer = json.loads(output)
        return GpuReport(tuple(answer["gpus"]), tuple(answer["errors"]), answer["driver"], answer["cuda"])
    except (ValueError, KeyError, TypeError):
        return _failed("nvml_crashed", f"exit status {status}")


def _failed(code: str, detail: str) -> GpuReport:
    log.warning("gpus.unreadable", extra={"code": code, "detail": detail})
    return GpuReport(errors=({"code": code, "detail": detail},))


def _environment() -> dict[str, str]:
    """The child's environment: ours, with the package importable."""
    return {**os.environ, "PYTHONPATH": str(Path(poolhouse_agent.__file__).parents[1])}
