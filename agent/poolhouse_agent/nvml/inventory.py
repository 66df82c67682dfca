"""The GPUs of this machine, read in children with a deadline: a driver that hangs must not hang the agent."""

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolhouse_agent.children import end
from poolhouse_agent.nvml import children, judge
from poolhouse_agent.nvml.answers import Answers
from poolhouse_agent.nvml.judge import Around
from poolhouse_agent.nvml.xids import XidWatch
from poolhouse_agent.probes import surroundings

log = logging.getLogger(__name__)

DEADLINE_S = 15.0
_MOST_CHILDREN = 4
_MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class GpuReport:
    """What is known of the GPUs, and what went wrong while asking."""

    gpus: tuple[dict[str, Any], ...] = ()
    errors: tuple[dict[str, str], ...] = ()
    driver: str = ""
    cuda: int | None = None


@dataclass(slots=True)
class _Stuck:
    """A child the kernel does not let die, and the GPU it hangs on (None: the library itself)."""

    child: asyncio.subprocess.Process
    gpu: int | None


@dataclass(slots=True)
class Inventory:
    """Asks NVML; `latest` is the last answer."""

    library: str = ""
    deadline_s: float = DEADLINE_S
    root: Path = Path("/")
    xids: XidWatch | None = None
    latest: GpuReport = field(default_factory=GpuReport)
    _stuck: list[_Stuck] = field(default_factory=list)
    _seen: dict[int, str] = field(default_factory=dict)

    async def read(self) -> GpuReport:
        """Ask once more. Never raises: what fails is an error in the report."""
        self._stuck = [one for one in self._stuck if one.child.returncode is None]
        if any(one.gpu is None for one in self._stuck):
            return self._failed("nvml_hung", "an earlier call has still not come back")
        hung = {one.gpu for one in self._stuck if one.gpu is not None}
        answers, ended = Answers(), ""
        for _ in range(_MOST_CHILDREN):
            ended = await self._ask(answers, skip=hung | set(answers.gpus))
            if ended != "hung" or answers.turn is None:
                break
            hung.add(answers.turn)
            answers.gpus[answers.turn].cut_short(answers.plan, "gpu_hung")
        self.latest = self._judged(answers, ended, hung)
        return self.latest

    def _judged(self, answers: Answers, ended: str, hung: set[int]) -> GpuReport:
        around = self._around()
        if answers.failure:
            return self._failed(**judge.library(*answers.failure, around))
        if ended == "hung" and answers.turn is None:
            return self._failed("nvml_hung", f"no answer within {self.deadline_s:.0f} s")
        if not answers.is_complete and ended != "hung":
            return self._failed("nvml_crashed", ended)
        if (count := answers.system.get("count")) is None:
            return self._failed("nvml_error", f"the number of GPUs: {answers.system_missing.get('count', '')}")
        gpus, faults = judge.gpus(answers, around)
        faults += [
            {"code": "gpu_hung", "detail": self._seen.get(index) or f"GPU {index}"}
            for index in sorted(hung - set(answers.gpus))
        ]
        self._seen |= {gpu["index"]: gpu["uuid"] for gpu in gpus}
        if not count:
            faults.append({"code": "no_gpu", "detail": ""})
        driver = str(answers.system.get("driver") or "")
        return GpuReport(tuple(gpus), tuple(faults), driver, answers.system.get("cuda"))

    def _around(self) -> Around:
        machine = surroundings.machine(self.root)
        if self.xids is None:
            return Around(machine, self._seen, xids_missing="not_watched")
        return Around(machine, self._seen, self.xids.heard(), self.xids.missing)

    async def _ask(self, answers: Answers, *, skip: set[int]) -> str:
        """Let one child ask; return "" where it came to its end, "hung", or how it died."""
        try:
            child = await children.start("child", self.library, ",".join(map(str, sorted(skip))))
        except OSError as error:
            return str(error)
        output = bytearray()
        try:
            async with asyncio.timeout(self.deadline_s):
                await _drain(child, output)
                status = await child.wait()
        except TimeoutError:
            answers.take(bytes(output))
            if not await end(child):
                self.remember_stuck(child, gpu=answers.turn)
            return "hung"
        except asyncio.CancelledError:
            await end(child)
            raise
        answers.take(bytes(output))
        return "" if status == 0 else f"exit status {status}"

    def remember_stuck(self, child: asyncio.subprocess.Process, *, gpu: int | None) -> None:
        """Leave alone what the child hangs on (None: the library itself) until it has ended."""
        self._stuck.append(_Stuck(child, gpu))

    def _failed(self, code: str, detail: str) -> GpuReport:
        log.warning("gpus.unreadable", extra={"code": code, "detail": detail})
        self.latest = GpuReport(errors=({"code": code, "detail": detail},))
        return self.latest


async def _drain(child: asyncio.subprocess.Process, output: bytearray) -> None:
    """Collect what the child writes, as it writes it."""
    if child.stdout is None:
        return
    while chunk := await child.stdout.read(1 << 16):
        if len(output) < _MAX_BYTES:
            output += chunk
