"""The owner's power cap: set through NVML, and the limits of before put back when the agent stops."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import poolhouse_agent
from poolhouse_agent import children
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.state import State

log = logging.getLogger(__name__)

FILE = "power.json"
_DEADLINE_S = 15.0
_ALL = "*"
# What may have passed in a minute; whatever else stands is looked at again after a while, since drivers forget limits.
_LATER = frozenset({"nvml_hung", "nvml_error", "nvml_library_missing", "nvml_driver_not_loaded", "gpu_is_lost"})
_RETRY_S, _RENEW_S = 60.0, 600.0


@dataclass(frozen=True, slots=True)
class Limit:
    """What became of one GPU's limit; `code` says why it is not what the owner wants."""

    gpu: str
    before_w: int | None
    now_w: int | None
    code: str = ""
    detail: str = ""


class PowerKeeper:
    """Holds the cap that the owner wants. `limits` is what became of it."""

    def __init__(
        self, state: State, *, library: str, deadline_s: float = _DEADLINE_S, retry_s: float = _RETRY_S
    ) -> None:
        self._state = state
        self._library = library
        self._deadline_s = deadline_s
        self._retry_s = retry_s
        self._again_at = 0.0
        self._stuck: asyncio.subprocess.Process | None = None
        self.cap_w: int | None = None
        self.limits: tuple[Limit, ...] = ()

    async def hold(self, cap_w: int | None) -> tuple[Limit, ...]:
        """Bring the limits in line with the cap; None puts back what was before. A failure is in the answer."""
        loop = asyncio.get_running_loop()
        if cap_w == self.cap_w and (cap_w is None or loop.time() < self._again_at):
            return self.limits
        self.cap_w = cap_w
        if cap_w is None:
            return await self.restore()
        before, self.limits = self.limits, await self._ask([(_ALL, cap_w * 1000)])
        may_pass = any(limit.code in _LATER for limit in self.limits)
        self._again_at = loop.time() + (self._retry_s if may_pass else _RENEW_S)
        self._remember()
        if [limit.code for limit in before] != [limit.code for limit in self.limits]:
            self._tell()
        return self.limits

    async def restore(self) -> tuple[Limit, ...]:
        """Put back the limits that were there before; where none was changed nothing is asked."""
        before = self._before()
        self.cap_w = None
        if not before:
            self.limits = ()
            return ()
        self.limits = await self._ask(sorted(before.items()))
        failed = {limit.gpu for limit in self.limits if limit.code}
        self._state.write(FILE, {uuid: limit for uuid, limit in before.items() if uuid in failed or "" in failed})
        self._tell()
        return self.limits

    def remember_stuck(self, child: asyncio.subprocess.Process) -> None:
        """Ask no more until this child, which the kernel does not let die, has ended."""
        self._stuck = child

    def _remember(self) -> None:
        """Note each first limit; a later cap must not pass for the limit of before."""
        changed = {limit.gpu: limit.before_w * 1000 for limit in self.limits if limit.before_w and not limit.code}
        self._state.write(FILE, {**changed, **self._before()})

    def _before(self) -> dict[str, int]:
        try:
            found = self._state.read(FILE) or {}
        except ConfigError:
            log.warning("power.forgotten", extra={"code": "state_unreadable", "detail": FILE})
            return {}
        return {str(uuid): int(limit) for uuid, limit in found.items() if isinstance(limit, int)}

    def _tell(self) -> None:
        for limit in self.limits:
            level = logging.WARNING if limit.code else logging.INFO
            fields = {"gpu": limit.gpu, "watt": limit.now_w, "code": limit.code, "detail": limit.detail}
            log.log(level, "power.limit", extra=fields)

    async def _ask(self, wanted: Sequence[tuple[str, int]]) -> tuple[Limit, ...]:
        if self._stuck is not None and self._stuck.returncode is None:
            return (Limit("", None, None, "nvml_hung", "an earlier call has still not come back"),)
        words = [f"{uuid}={limit_mw}" for uuid, limit_mw in wanted]
        try:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "poolhouse_agent.owner.power_child", self._library or "-", *words,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(Path(poolhouse_agent.__file__).parents[1])},
            )  # fmt: skip
        except OSError as error:
            return (Limit("", None, None, "nvml_crashed", str(error)),)
        output = await children.answer(child, deadline_s=self._deadline_s)
        if output is None:
            self.remember_stuck(child)
            return (Limit("", None, None, "nvml_hung", f"no answer within {self._deadline_s:.0f} s"),)
        return _limits(output, child.returncode or 0)


def _limits(output: bytes, status: int) -> tuple[Limit, ...]:
    try:
        return tuple(_limit(entry) for entry in json.loads(output))
    except (ValueError, KeyError, TypeError):
        return (Limit("", None, None, "nvml_crashed", f"exit status {status}"),)


def _limit(entry: Mapping[str, Any]) -> Limit:
    before, now = entry["before_mw"], entry["now_mw"]
    return Limit(
        gpu=entry["uuid"],
        before_w=None if before is None else before // 1000,
        now_w=None if now is None else now // 1000,
        code=entry["code"],
        detail=entry["detail"],
    )
