"""A vLLM of our own: started clean, on loopback, behind a random key, with the owner's weights and nothing else."""

import asyncio
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from poolhouse_agent.config import ModelFolder
from poolhouse_agent.engine import containers, versions, vllm_flags, vllm_log, weights
from poolhouse_agent.engine.base import Prepared, free_port
from poolhouse_agent.engine.process import Command
from poolhouse_agent.engine.versions import Program
from poolhouse_agent.engine.vllm_flags import Place
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

# A first start compiles, reads a cold disk and may share the machine with a neighbour that does the same.
_BASE_START_S = 300.0
_BYTES_PER_START_S = 200_000_000
_STOP_SLACK_S = 10.0
# Capturing CUDA graphs takes memory that no plan counts: first a little less of the card, then none captured.
_EASED_SHARE, _LEAST_SHARE, _EAGER = 0.03, 0.1, 2
MOST_EASED = 2


class VllmRecipe:
    """Makes `vllm serve`, as a program of this machine or in a container."""

    def __init__(self, desired: Desired, *, workshop: Workshop, folder: Path, eased: int = 0) -> None:
        self._desired = desired
        self._eased = eased
        self._workshop = workshop
        self._config = workshop.config
        self._folder = folder

    def settings(self) -> Mapping[str, Any]:
        """What of the owner's configuration goes in."""
        config = self._config
        owned = self._workshop.weights_of(self._desired)
        weights_of = {"path": str(owned.path), "gpus": list(owned.gpus)} if owned is not None else {}
        return {
            "vllm": config.vllm, "container": asdict(config.container), "weights": weights_of,
            "memory": config.gpu_memory_utilization, "environment": dict(config.engine_environment),
        }  # fmt: skip

    async def prepare(self) -> Prepared:
        """Check the weights, pick GPUs and write the command. Raises EngineError."""
        desired = self._desired
        vllm_flags.requested(desired)
        program = self._program()
        owned = self._owned_weights()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        await asyncio.to_thread(self._check_weights, owned.path)
        if self._config.container.tool:
            await containers.require_usable(self._config.container)
        uuids = await self._pick(owned)
        port, key = free_port(), secrets.token_urlsafe(32)
        place = Place(port, owned.path, desired.model, self._memory_share(), has_gpus=bool(uuids))
        argv = [program.path, *vllm_flags.arguments(desired, place)]
        if self._eased >= _EAGER and "--enforce-eager" not in argv:
            argv.append("--enforce-eager")
        grace_s = vllm_flags.SHUTDOWN_S + _STOP_SLACK_S
        command = Command(argv, self._environment(key, uuids), grace_s, has_scratch=True)
        if self._config.container.tool:
            around = containers.Around(self._config.container, self._folder, owned.path, port, uuids)
            command = containers.contained(command, around)
        return Prepared(
            command, port, desired.model, _start_deadline_s(owned.path),
            headers={"authorization": f"Bearer {key}"},
            facts={"engine_version": program.version, "gpu_uuids": list(uuids)},
        )  # fmt: skip

    def adopt(self, facts: Mapping[str, Any]) -> None:
        """Take back the GPUs."""
        self._workshop.gpus.take(self._folder.name, [str(uuid) for uuid in facts.get("gpu_uuids", ())])

    def classify(self, log: str, *, fallback: EngineError) -> EngineError:
        """What vLLM's log tells."""
        return vllm_log.classify(log, fallback=fallback)

    async def release(self) -> None:
        """Give the GPUs back."""
        self._workshop.gpus.release(self._folder.name)

    def _program(self) -> Program:
        if self._config.container.tool:
            return Program("vllm")
        root = self._workshop.engines.parent / versions.ROOT
        return versions.find(self._config.vllm, root=root, wanted=self._desired.engine_version)

    async def _pick(self, owned: ModelFolder) -> tuple[str, ...]:
        gpus, desired = self._workshop.gpus, self._desired
        uuids = gpus.pick(
            owned.gpus, count=vllm_flags.gpus_wanted(desired), owner=self._folder.name,
            wanted=vllm_flags.wanted_uuids(desired),
        )  # fmt: skip
        try:
            await gpus.require_free(uuids, share=self._memory_share())
        except EngineError:
            gpus.release(self._folder.name)
            raise
        return uuids

    def _memory_share(self) -> float:
        """The pool may ask for less of a card than the owner allows, never for more."""
        asked = self._desired.settings.get("gpu_memory_utilization", self._config.gpu_memory_utilization)
        eased = _EASED_SHARE if self._eased else 0.0
        return max(_LEAST_SHARE, min(float(asked), self._config.gpu_memory_utilization) - eased)

    def _owned_weights(self) -> ModelFolder:
        owned = self._workshop.weights_of(self._desired)
        if owned is None:
            raise EngineError("weights_missing", f"[models] has no entry for {self._desired.model}")
        return owned

    def _check_weights(self, folder: Path) -> None:
        weights.require_safe(folder)
        weights.require_digest(folder, self._desired.artefact_digest, cache=self._workshop.engines / "digests.json")

    def _environment(self, key: str, uuids: tuple[str, ...]) -> dict[str, str]:
        """Nothing of the agent's own environment but the path to programs."""
        home = self._folder / "home"
        home.mkdir(exist_ok=True, mode=0o700)
        gpus = {"CUDA_VISIBLE_DEVICES": ",".join(uuids), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if uuids else {}
        return {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "LANG": "C.UTF-8",
            **self._config.engine_environment,
            "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
            "VLLM_API_KEY": key, "VLLM_HOST_IP": "127.0.0.1", "VLLM_MAX_N_SEQUENCES": "8",
            **gpus,
        }  # fmt: skip


def _start_deadline_s(folder: Path) -> float:
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return _BASE_START_S + size / _BYTES_PER_START_S
