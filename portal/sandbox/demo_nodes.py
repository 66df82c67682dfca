"""The demo's nodes: simulated GPUs, a server that already runs, or a real vLLM."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portal.sandbox import demo_offers
from portal.sandbox.demo_offers import EngineMissing, Offer
from portal.sandbox.supervisor import Stack
from portal.sandbox.surroundings import ROOT

SIMULATED = ("demo-node-1", "demo-node-2")
_VLLM = ROOT / ".venv-vllm" / "bin" / "vllm"
_TINY_MODELS = ROOT / ".cache" / "tiny-models"
_MAKE_TINY = ROOT / "tests" / "vllm" / "make_tiny_model.py"
_MAKE_S = 300
# What a vLLM on a CPU needs: a small cache, no compiling, one thread a request, no pinning to core 0.
_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Which nodes there are, what they serve, how they are configured, and how long they may take to begin."""

    names: tuple[str, ...]
    engine: str
    offer: Offer
    config: str = ""
    profile: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    vectors: Offer | None = None
    max_concurrency: int = 32
    is_house: bool = False
    ready_s: float = 60.0

    @property
    def offers(self) -> list[Offer]:
        """Return the models the catalogue must have."""
        return [self.offer] if self.vectors is None else [self.offer, self.vectors]

    @property
    def deployment(self) -> dict[str, Any]:
        """Return what the deploy step is given."""
        settings = {self.offer.model: self.settings}
        if self.vectors is not None:
            settings[self.vectors.model] = {"embedding_dimensions": self.vectors.embedding_dimensions}
        return {
            "nodes": list(self.names),
            "engine": self.engine,
            "max_concurrency": self.max_concurrency,
            "models": settings,
        }


def plan(engine: str, engine_url: str) -> Plan:
    """Decide on the nodes. Raises EngineMissing."""
    if engine_url:
        return _external(engine_url.rstrip("/"))
    if engine == "vllm":
        return _vllm()
    return Plan(
        names=SIMULATED,
        engine="simulate",
        offer=demo_offers.simulated(),
        vectors=demo_offers.simulated_vectors(),
        profile="rtx4090x2",
        settings={"tokens_per_second": 60},
    )


def join(stack: Stack, chosen: Plan, name: str, *, token: str) -> None:
    """Write the node's configuration, and join with the token where no earlier run has joined it."""
    home = stack.folder / "nodes" / name
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    (home / "agent.toml").write_text(chosen.config, encoding="utf-8")
    if has_joined(stack, name):
        return
    file = home / "token"
    file.write_text(token, encoding="utf-8")
    file.chmod(0o600)
    arguments = ["join", "--server", stack.public_url, "--token-file", str(file), "--name", name]
    if chosen.profile:
        arguments += ["--simulate", chosen.profile]
    stack.run(["-m", "poolhouse_agent", *_folders(stack, name), *arguments], timeout_s=60)
    file.unlink()
    (home / "joined").touch()


def has_joined(stack: Stack, name: str) -> bool:
    """Say whether an earlier run has joined the node."""
    return (stack.folder / "nodes" / name / "joined").exists()


def start(stack: Stack, name: str) -> None:
    """Run the node's agent under the supervisor."""
    stack.start_node(name, ["-m", "poolhouse_agent", *_folders(stack, name), "run"])


def _folders(stack: Stack, name: str) -> list[str]:
    home = stack.folder / "nodes" / name
    return ["--config", str(home / "agent.toml"), "--state", str(home / "state")]


def _external(url: str) -> Plan:
    offer = demo_offers.external(url)
    served = f"{{ url = {json.dumps(url)}, served_name = {json.dumps(offer.served_name)} }}"
    return Plan(
        names=("demo-external",),
        engine="external",
        offer=offer,
        config=f"[external]\n{json.dumps(offer.model)} = {served}\n",
    )


def _vllm() -> Plan:
    program = Path(os.environ.get("POOLHOUSE_VLLM") or _VLLM)
    if not program.exists():
        raise EngineMissing(
            f"there is no vLLM at {program}: `sh tests/vllm/install.sh .venv-vllm` installs a CPU build"
        )
    given = os.environ.get("ENGINE_MODEL")
    folder = Path(given) if given else _tiny_model(program)
    offer = demo_offers.weights(folder)
    environment = "" if _has_gpu() else f"environment = {_toml(_CPU)}\n"
    return Plan(
        names=("demo-vllm",),
        engine="vllm",
        offer=offer,
        config=f"[engine]\nvllm = {json.dumps(str(program))}\n{environment}\n"
        f"[models]\n{json.dumps(offer.model)} = {json.dumps(str(folder))}\n",
        max_concurrency=4,
        is_house=True,
        ready_s=300.0,
    )


def _tiny_model(program: Path) -> Path:
    """Make a tiny model with random weights beside the CPU build of vLLM, once."""
    folder = _TINY_MODELS / "chat"
    if not (folder / "model.safetensors").exists():
        python = str(program.with_name("python"))
        made = subprocess.run(
            [python, str(_MAKE_TINY), str(_TINY_MODELS), "--kind", "chat"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_MAKE_S,
        )
        if made.returncode != 0:
            raise EngineMissing(f"no tiny model could be made: {made.stderr.strip()[-1000:]}")
    return folder


def _has_gpu() -> bool:
    return Path("/dev/nvidiactl").exists()


def _toml(table: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in table.items()) + " }"
