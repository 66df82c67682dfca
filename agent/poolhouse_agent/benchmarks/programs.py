"""Runs the programs of `on_torch` in the engine's own Python, each in a process of its own with a deadline."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from poolhouse_agent.benchmarks import on_torch
from poolhouse_agent.benchmarks.step import Say

_MAIN = Path(on_torch.__file__).with_name("__main__.py")
_TAIL_BYTES = 2_000
_LINE_BYTES = 1 << 20
_DETAIL = 400
_GONE_S = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program found, or the code of the failure catalogue that says why it found nothing."""

    found: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    detail: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a program: on which GPUs, with which options, for how long at most."""

    program: str
    uuids: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    deadline_s: float = 60.0
    device: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)


class Programs(Protocol):
    """Who can run such programs."""

    async def run(self, job: Job, say: Say) -> Outcome:
        """Run one; what fails is in the outcome."""
        ...


class TorchPrograms:
    """Runs them in `python`. `device` is another kind than CUDA where a test wants that."""

    def __init__(self, python: str, *, device: str = "cuda", shrink: Mapping[str, Any] | None = None) -> None:
        self._python = python
        self._device = device
        self._shrink = shrink or {}

    async def run(self, job: Job, say: Say) -> Outcome:
        """Run one; a cancelled one is killed."""
        options = json.dumps({**job.options, **self._shrink})
        device = f"{self._device}:{job.device}" if self._device == "cuda" else self._device
        try:
            child = await asyncio.create_subprocess_exec(
                self._python, "-I", str(_MAIN), job.program, "--device", device, "--options", options,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env=_environment(job), start_new_session=True, limit=_LINE_BYTES,
            )  # fmt: skip
        except OSError as error:
            return Outcome(code="engine_python_missing", detail=f"{self._python}: {error.strerror}")
        try:
            async with asyncio.timeout(job.deadline_s):
                last, tail = await asyncio.gather(_last_word(child, say), _tail(child))
                status = await child.wait()
        except TimeoutError:
            return Outcome(code="check_timeout", detail=f"{job.program} did not end within {job.deadline_s:.0f} s")
        finally:
            await _end(child)
        return _outcome(last, status, tail)


def _outcome(last: Mapping[str, Any], status: int, tail: str) -> Outcome:
    match last:
        case {"result": dict() as found}:
            return Outcome(found)
        case {"unsupported": str() as why}:
            return Outcome(code="check_unsupported", detail=why[:_DETAIL])
        case {"wrong": str() as code, "detail": str() as detail}:
            evidence = last.get("evidence")
            return Outcome(
                code=code[:48], detail=detail[:_DETAIL], evidence=evidence if isinstance(evidence, dict) else {}
            )
        case {"failed": str() as why}:
            return Outcome(code="check_crashed", detail=why[:_DETAIL], evidence={"stderr": tail} if tail else {})
    return Outcome(code="check_crashed", detail=f"exit status {status}", evidence={"stderr": tail} if tail else {})


async def _last_word(child: asyncio.subprocess.Process, say: Say) -> dict[str, Any]:
    """Read line by line; return the last one that is no progress."""
    last: dict[str, Any] = {}
    if child.stdout is None:
        return last
    with contextlib.suppress(ValueError):  # a line without an end: what it would say is no result
        while line := await child.stdout.readline():
            word = _word(line)
            share = word.get("progress")
            if isinstance(share, int | float):
                say(min(1.0, max(0.0, float(share))))
            elif word:
                last = word
    return last


def _word(line: bytes) -> dict[str, Any]:
    try:
        word = json.loads(line)
    except (ValueError, RecursionError):
        return {}  # a library's own chatter
    return word if isinstance(word, dict) else {}


async def _tail(child: asyncio.subprocess.Process) -> str:
    kept = b""
    while child.stderr is not None and (part := await child.stderr.read(65_536)):
        kept = (kept + part)[-_TAIL_BYTES:]
    return kept.decode("utf-8", "replace")


async def _end(child: asyncio.subprocess.Process) -> None:
    """Kill the program with all it started. One that the kernel holds is left behind: a reboot alone ends it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GONE_S):
            await child.wait()


def _environment(job: Job) -> dict[str, str]:
    """Nothing of the agent's own environment but the way to programs and to the driver's libraries."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    gpus = {"CUDA_VISIBLE_DEVICES": ",".join(job.uuids), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if job.uuids else {}
    return {"HOME": "/nonexistent", "LANG": "C.UTF-8", **kept, **gpus, **job.environment}
