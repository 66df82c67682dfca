"""The real agent as its owner runs it: joined by command, running as a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from portal.nodes.models import Node, NodeState, Tunnel
from portal.providers.models import Provider, ProviderKind
from portal.sandbox import processes
from tests.factories.providers import ProviderFactory
from tests.integration.fleet.conftest import Trial
from tests.integration.gateway.pool import until


def provider() -> Provider:
    """Return a provider whose nodes take every kind of request."""
    made: Provider = ProviderFactory(kind=ProviderKind.CONTRACTED)
    return made


@contextmanager
def running(trial: Trial) -> Iterator[Node]:
    """Join, run, wait until the node serves and its tunnel is held; yield the node."""
    home = trial.folder / "agent"
    home.mkdir()
    (home / "agent.toml").touch()
    token = trial.folder / "token"
    token.write_text(trial.token(), encoding="ascii")
    where = [sys.executable, "-m", "poolhouse_agent", "--config", str(home / "agent.toml"), "--state", str(home)]
    join = ["join", "--server", trial.url, "--token-file", str(token), "--name", "real", "--simulate", "rtx4090x2"]
    done = subprocess.run([*where, *join], env=trial.environ(), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    process = processes.start([*where, "run"], log=home / "agent.log", environ=trial.environ())
    try:
        node = Node.objects.get(provider=trial.provider)
        trial.deploy()
        until(f"it serves: {_tail(home)}", lambda: _serves(node), 45)
        yield node
    finally:
        processes.stop(process, timeout_s=20)


def owner(node: Node) -> str:
    """Return the gateway process that holds the node's tunnel; empty where none does."""
    return Tunnel.objects.filter(node=node).values_list("process", flat=True).first() or ""


def _serves(node: Node) -> bool:
    return Node.objects.filter(pk=node.pk, state=NodeState.SERVING).exists() and bool(owner(node))


def _tail(home: Path) -> str:
    log = home / "agent.log"
    return log.read_text(errors="replace")[-2000:] if log.exists() else ""
