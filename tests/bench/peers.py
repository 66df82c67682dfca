"""The gateways of others, installed by name from the package index and run as their makers say."""

import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import httpx

from portal.sandbox import processes as children
from tests.bench import processes

KEY, MODEL = "sk-1234", "m"
_READY_S = 120.0
_LITELLM = """\
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "http://127.0.0.1:{port}/v1", api_key: node}}
general_settings: {{master_key: {key}}}
"""
_LITELLM_ENVIRONMENT = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
}
PACKAGES = {"vllm-router": "vllm-router", "smg": "smg", "litellm": "litellm[proxy]"}


class PeerUnavailable(RuntimeError):
    """The peer could not be installed or did not answer."""


@dataclass(frozen=True)
class Peer:
    """A running peer."""

    name: str
    url: str
    pid: int


@contextmanager
def running(name: str, *, upstream_port: int, folder: Path, log_folder: Path) -> Iterator[Peer]:
    """Install the peer in `folder` where it is missing and run it on the gateway's core. Raises PeerUnavailable."""
    program = install(name, folder)
    port = children.free_port()
    argv = _argv(name, program, port=port, upstream_port=upstream_port, folder=log_folder)
    log = log_folder / f"{name}.log"
    with processes.on_core(processes.GATEWAY_CORE):
        process = children.start(argv, log=log, environ=_environment(name, program))
    try:
        url = f"http://127.0.0.1:{port}"
        _await_answer(url, process, log)
        yield Peer(name, url, process.pid)
    finally:
        children.stop(process)


def install(name: str, folder: Path) -> Path:
    """Return the peer's program in a virtual environment of its own. Raises PeerUnavailable."""
    if name not in PACKAGES:
        raise PeerUnavailable(f"unknown peer {name!r}: choose from {', '.join(PACKAGES)}")
    home = folder / name
    program = home / "bin" / name
    if not program.exists():
        venv.create(home, with_pip=True)
        argv = [home / "bin" / "python", "-m", "pip", "-q", "--disable-pip-version-check", "install", PACKAGES[name]]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode or not program.exists():
            raise PeerUnavailable(f"{name} was not installed: {done.stderr.strip()[-400:]}")
        print(f"bench: installed {name} in {home}", file=sys.stderr)  # noqa: T201  progress of a long wait
    return program


def _argv(name: str, program: Path, *, port: int, upstream_port: int, folder: Path) -> list[str]:
    if name == "litellm":
        config = folder / "litellm.yaml"
        config.write_text(_LITELLM.format(port=upstream_port, key=KEY), encoding="utf-8")
        return [str(program), "--config", str(config), "--port", str(port), "--num_workers", "1"]
    verb = ["launch"] if name == "smg" else []
    where = ["--worker-urls", f"http://127.0.0.1:{upstream_port}", "--host", "127.0.0.1", "--port", str(port)]
    return [str(program), *verb, *where, "--policy", "round_robin", "--log-level", "error"]


def _environment(name: str, program: Path) -> dict[str, str]:
    environment = {"PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(program.parents[1])}
    return environment | (_LITELLM_ENVIRONMENT if name == "litellm" else {})


def _await_answer(url: str, process: Popen[bytes], log: Path) -> None:
    from tests.integration.gateway.pool import until

    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": f"Bearer {KEY}"}

    def answers() -> bool:
        if process.poll() is not None:
            raise PeerUnavailable(f"it ended: {log.read_text(errors='replace')[-400:]}")
        try:
            return httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=3).status_code == 200
        except httpx.HTTPError:
            return False

    until(f"{log.stem} answers", answers, _READY_S)
