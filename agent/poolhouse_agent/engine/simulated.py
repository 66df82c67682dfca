"""The simulated engine: a process that speaks vLLM's API, for nodes that joined with --simulate."""

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import poolhouse_agent
from poolhouse_agent.engine.base import Prepared, free_port
from poolhouse_agent.engine.process import Command
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

_START_S = 30.0
_STOP_S = 3.0
_SETTINGS = {"tokens_per_second": (1, 100_000), "embedding_dimensions": (1, 8192)}


class SimulatedRecipe:
    """Makes `python -m poolhouse_agent.simulate`."""

    def __init__(self, desired: Desired, *, behaviour: str, behaviour_file: Path) -> None:
        self._desired = desired
        self._behaviour = behaviour
        self._behaviour_file = behaviour_file

    def settings(self) -> Mapping[str, Any]:
        """How the simulator behaves."""
        return {"behaviour": self._behaviour, "behaviour_file": str(self._behaviour_file)}

    async def prepare(self) -> Prepared:
        """The command. Raises EngineError."""
        desired, port, key = self._desired, free_port(), secrets.token_urlsafe(32)
        argv = [
            sys.executable, "-m", "poolhouse_agent.simulate",
            "--port", str(port), "--model", desired.model, "--behaviour", self._behaviour,
            "--behaviour-file", str(self._behaviour_file), "--context", str(desired.context_tokens),
            "--max-num-seqs", str(desired.max_concurrency), *_flags(desired),
        ]  # fmt: skip
        command = Command(argv, {**_environment(), "VLLM_API_KEY": key}, _STOP_S)
        return Prepared(command, port, desired.model, _START_S, headers={"authorization": f"Bearer {key}"})

    def adopt(self, facts: Mapping[str, Any]) -> None:
        """A simulated engine holds nothing."""

    def classify(self, log: str, *, fallback: EngineError) -> EngineError:
        """Its log tells nothing of use."""
        return fallback

    async def release(self) -> None:
        """A simulated engine holds nothing."""


def _flags(desired: Desired) -> list[str]:
    arguments = []
    if desired.engine_version:
        arguments += ["--version", desired.engine_version]
    for name, value in desired.settings.items():
        low, high = _SETTINGS.get(name, (1, 0))
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise EngineError("engine_argument_refused", f"setting {name[:64]!r}")
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    return arguments


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(Path(poolhouse_agent.__file__).parents[1]), **kept}
