"""The demo's nodes: simulated GPUs, a server that already runs, or a real vLLM."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from portal.sandbox.supervisor import Stack

MODEL = "demo/chat-8b"
SIMULATED = ("demo-node-1", "demo-node-2")


class EngineMissing(RuntimeError):
    """The engine that was asked for cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which nodes there are, how they are configured, and what the portal must be told about them."""

    names: list[str]
    engine: str
    config: str = ""
    profile: str = ""
    seed: dict[str, Any] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def deployment(self) -> dict[str, Any]:
        """Return what the deploy step is given."""
        return {"nodes": self.names, "engine": self.engine, "settings": self.settings}


def plan(engine: str, engine_url: str, *, folder: Path) -> Plan:
    """Decide on the nodes. Raises EngineMissing."""
    if engine_url:
        return _external(engine_url)
    if engine == "vllm":
        return _vllm(folder)
    return Plan(names=list(SIMULATED), engine="simulate", profile="rtx4090x2", settings={"tokens_per_second": 60})


def join(stack: Stack, chosen: Plan, name: str, *, token: str) -> None:
    """Write the node's configuration, and join with the token where no earlier run has joined it."""
    home = stack.folder / "nodes" / name
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = home / "agent.toml"
    config.write_text(chosen.config, encoding="utf-8")
    common = ["--config", str(config), "--state", str(home / "state")]
    joined = home / "joined"
    if not joined.exists():
        (home / "token").write_text(token, encoding="utf-8")
        (home / "token").chmod(0o600)
        arguments = ["join", "--server", stack.public_url, "--token-file", str(home / "token"), "--name", name]
        simulate = ["--simulate", chosen.profile] if chosen.profile else []
        stack.run(["-m", "poolhouse_agent", *common, *arguments, *simulate], timeout_s=60)
        (home / "token").unlink()
        joined.touch()


def start(stack: Stack, chosen: Plan, name: str) -> None:
    """Run the node's agent under the supervisor."""
    home = stack.folder / "nodes" / name
    common = ["--config", str(home / "agent.toml"), "--state", str(home / "state")]
    stack.start_node(name, ["-m", "poolhouse_agent", *common, "run"], chosen.environ)


def _external(url: str) -> Plan:
    served = _served_model(url.rstrip("/"))
    config = f'[external]\n"{MODEL}" = {{ url = {json.dumps(url.rstrip("/"))}, served_name = {json.dumps(served)} }}\n'
    return Plan(names=["demo-external"], engine="external", config=config, seed={"is_external": True})


def _served_model(url: str) -> str:
    try:
        answer = httpx.get(f"{url}/v1/models", timeout=10.0, trust_env=False)
        answer.raise_for_status()
        return str(answer.json()["data"][0]["id"])
    except (httpx.HTTPError, KeyError, IndexError, ValueError) as error:
        raise EngineMissing(
            f"ENGINE_URL={url}: /v1/models does not answer like an OpenAI-compatible server ({error})"
        ) from error


def _vllm(folder: Path) -> Plan:
    raise EngineMissing(f"{sys.executable}: {folder}")
