"""The simulated engine: a child process that speaks vLLM's API, for nodes that joined with --simulate."""

import os
import sys
from pathlib import Path

import aiohttp

import poolhouse_agent
from poolhouse_agent.engine.base import free_port
from poolhouse_agent.engine.process import ChildProcess
from poolhouse_agent.engine.startup import wait_until_listed
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

_START_S = 30.0
_STOP_S = 3.0
_SETTINGS = {"tokens_per_second": (1, 100_000), "embedding_dimensions": (1, 8192)}


class SimulatedEngine:
    """Runs `python -m poolhouse_agent.simulate`."""

    def __init__(
        self, desired: Desired, *, behaviour: str, behaviour_file: Path, folder: Path, http: aiohttp.ClientSession
    ) -> None:
        self._desired = desired
        self._port = free_port()
        self._http = http
        argv = [
            sys.executable, "-m", "poolhouse_agent.simulate",
            "--port", str(self._port), "--model", desired.model, "--behaviour", behaviour,
            "--behaviour-file", str(behaviour_file), "--context", str(desired.context_tokens),
            "--max-num-seqs", str(desired.max_concurrency), *_flags(desired),
        ]  # fmt: skip
        self._process = ChildProcess(argv=argv, environ=_environment(), folder=folder)

    async def start(self) -> Target:
        """Start the process and wait for its port. Raises EngineError."""
        try:
            await self._process.start()
        except OSError as error:
            raise EngineError("engine_start_failed", str(error)) from None
        target = Target(
            base_url=f"http://127.0.0.1:{self._port}",
            served_name=self._desired.model,
            max_concurrency=self._desired.max_concurrency,
        )
        await wait_until_listed(self._http, target, self._process, deadline_s=_START_S)
        return target

    async def wait_for_end(self) -> str:
        """Wait for the process to end."""
        await self._process.wait()
        return "engine_died"

    def explain(self) -> str:
        """The exit status."""
        return f"exit status {self._process.exit_status}"

    async def stop(self) -> None:
        """End the process."""
        await self._process.stop(grace_s=_STOP_S)


def _flags(desired: Desired) -> list[str]:
    arguments = []
    for name, value in desired.settings.items():
        low, high = _SETTINGS.get(name, (1, 0))
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise EngineError("engine_argument_refused", f"setting {name[:64]!r}")
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    return arguments


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(Path(poolhouse_agent.__file__).parents[1]), **kept}
