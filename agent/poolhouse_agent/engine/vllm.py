"""A vLLM of our own: started clean, on loopback, behind a random key, with the owner's weights and nothing else."""

import asyncio
import logging
import os
import secrets
import shutil
import tempfile
from pathlib import Path

import aiohttp

from poolhouse_agent.config import Config, ModelFolder
from poolhouse_agent.engine import vllm_flags, vllm_log, weights
from poolhouse_agent.engine.base import free_port
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.engine.process import ChildProcess
from poolhouse_agent.engine.startup import wait_until_listed
from poolhouse_agent.engine.target import Target
from poolhouse_agent.engine.vllm_flags import Place
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

log = logging.getLogger(__name__)

# A first start compiles, reads a cold disk and may share the machine with a neighbour that does the same.
_BASE_START_S = 300.0
_BYTES_PER_START_S = 200_000_000
_STOP_SLACK_S = 10.0
OWN_PROGRAM = Path("vllm/bin/vllm")


class VllmEngine:
    """Starts `vllm serve` and stops it with everything it started."""

    def __init__(
        self, desired: Desired, *, config: Config, folder: Path, http: aiohttp.ClientSession, gpus: GpuChoice
    ) -> None:
        self._desired = desired
        self._config = config
        self._folder = folder
        self._http = http
        self._gpus = gpus
        self._process: ChildProcess | None = None
        self._scratch: Path | None = None

    async def start(self) -> Target:
        """Check the weights, start vLLM and wait until it lists the model. Raises EngineError."""
        program = find_program(self._config.vllm, own=self._folder.parents[1] / OWN_PROGRAM)
        vllm_flags.requested(self._desired)
        owned = self._owned_weights()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        await asyncio.to_thread(self._check_weights, owned.path)
        uuids = self._gpus.pick(owned.gpus, count=vllm_flags.gpus_wanted(self._desired), owner=self._desired.deployment)
        port, key = free_port(), secrets.token_urlsafe(32)
        served_name = self._desired.model
        place = Place(port, owned.path, served_name, self._config.gpu_memory_utilization, has_gpus=bool(uuids))
        environ = self._environment(key, uuids)
        argv = [program, *vllm_flags.arguments(self._desired, place)]
        self._process = ChildProcess(argv=argv, environ=environ, folder=self._folder)
        try:
            await self._process.start()
        except OSError as error:
            raise EngineError("engine_start_failed", str(error)) from None
        target = Target(
            base_url=f"http://127.0.0.1:{port}",
            served_name=served_name,
            max_concurrency=self._desired.max_concurrency,
            headers={"authorization": f"Bearer {key}"},
        )
        await self._wait(target, self._process, _start_deadline_s(owned.path))
        return target

    async def _wait(self, target: Target, process: ChildProcess, deadline_s: float) -> None:
        try:
            await wait_until_listed(self._http, target, process, deadline_s=deadline_s)
        except EngineError as error:
            if process.exit_status is None:
                raise
            raise vllm_log.classify(process.tail(), fallback=error) from None

    def _owned_weights(self) -> ModelFolder:
        owned = self._config.models.get(self._desired.model)
        if owned is None:
            raise EngineError("weights_missing", f"[models] has no entry for {self._desired.model}")
        return owned

    def _check_weights(self, folder: Path) -> None:
        weights.require_safe(folder)
        weights.require_digest(folder, self._desired.artefact_digest, cache=self._folder / "digests.json")

    def _environment(self, key: str, uuids: tuple[str, ...]) -> dict[str, str]:
        """Nothing of the agent's own environment but the path to programs."""
        home = self._folder / "home"
        home.mkdir(exist_ok=True, mode=0o700)
        self._scratch = Path(tempfile.mkdtemp(prefix="ph-"))  # short: sockets below it may have 107 characters in all
        gpus = {"CUDA_VISIBLE_DEVICES": ",".join(uuids), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if uuids else {}
        return {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "TMPDIR": str(self._scratch), "LANG": "C.UTF-8",
            **self._config.engine_environment,
            "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
            "VLLM_API_KEY": key, "VLLM_HOST_IP": "127.0.0.1", "VLLM_MAX_N_SEQUENCES": "8",
            **gpus,
        }  # fmt: skip

    async def wait_for_end(self) -> str:
        """Wait for the process; return the code that its log gives."""
        process = self._process
        if process is None:
            return "engine_died"
        await process.wait()
        return vllm_log.classify(process.tail(), fallback=EngineError("engine_died")).code

    def explain(self) -> str:
        """The exit status."""
        return f"exit status {self._process.exit_status}" if self._process else ""

    async def stop(self) -> None:
        """SIGTERM, the time that running requests may take, then the whole group."""
        self._gpus.release(self._desired.deployment)
        if self._process is not None:
            await self._process.stop(grace_s=vllm_flags.SHUTDOWN_S + _STOP_SLACK_S)
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)


def find_program(configured: str, *, own: Path) -> str:
    """Return the program the owner named, else the agent's own, else the one on PATH. Raises EngineError."""
    found = shutil.which(configured or own) or (None if configured else shutil.which("vllm"))
    if found is None:
        raise EngineError("engine_missing", f"no program {configured or 'vllm'}")
    return str(Path(found).absolute())


def _start_deadline_s(folder: Path) -> float:
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return _BASE_START_S + size / _BYTES_PER_START_S
