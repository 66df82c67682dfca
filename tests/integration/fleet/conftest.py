"""A real portal and a real gateway, and simulated nodes that join them as a fleet."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.core import clock
from portal.nodes.models import EngineKind, Node
from portal.nodes.services import deployments, enrolment
from portal.providers.models import Provider, ProviderKind
from portal.sandbox import processes
from tests.factories.providers import ProviderFactory
from tests.integration.gateway.conftest import _django_db_helper, pool
from tests.integration.gateway.pool import Gateway, Pool, until

__all__ = ["_django_db_helper", "pool"]

_SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "simulate.json"


@dataclass
class Trial:
    """The processes of the pool, and how a fleet is started against them."""

    pool: Pool
    gateway: Gateway
    url: str
    folder: Path
    provider: Provider

    def start(self, *arguments: object, nodes: int) -> subprocess.Popen[bytes]:
        """Start a fleet that joins with new tokens where it must."""
        tokens = self.folder / "tokens"
        tokens.write_text("\n".join(self.token() for _ in range(nodes)), encoding="ascii")
        given = ["--nodes", nodes, "--tokens-file", tokens, "--ramp", 1, "--duration", "5m", "--json", *arguments]
        return processes.start(self._argv(*given), log=self.log, environ=self.environ())

    @property
    def log(self) -> Path:
        return self.folder / "fleet.log"

    def end(self, fleet: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Stop the fleet as Ctrl-C does, and return what it reports."""
        fleet.send_signal(signal.SIGINT)
        assert fleet.wait(20) == 0, self.log.read_text()[-3000:]
        text = self.log.read_text()
        return _report(text[text.rindex("\n{\n") if not text.startswith("{") else 0 :])

    def retire(self) -> dict[str, Any]:
        """Let the whole fleet leave."""
        done = subprocess.run(
            self._argv("--retire", "--json"),
            check=False,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return _report(done.stdout)

    def deploy(self) -> None:
        """Tell each node to serve the model."""
        for node in Node.objects.filter(provider=self.provider).order_by("id"):
            deployments.deploy(
                node=node,
                model=self.pool.model,
                engine=EngineKind.SIMULATE,
                settings={},
                max_concurrency=2,
                actor=SYSTEM_ACTOR,
                now=clock.now(),
            )

    def states(self) -> dict[str, str]:
        """Return each node's state by its name."""
        return dict(Node.objects.filter(provider=self.provider).values_list("name", "state"))

    def _argv(self, *arguments: object) -> list[str]:
        where = ["--server", self.url, "--identities", self.folder / "identities"]
        command = [sys.executable, "-m", "poolhouse_agent", "simulate", *where, *arguments]
        return [str(part) for part in command]

    def environ(self) -> dict[str, str]:
        """What agents are told."""
        return self.gateway.environment() | {"PYTHONPATH": f"{Path.cwd()}:{Path.cwd() / 'agent'}"}

    def token(self) -> str:
        """Return a new enrolment token."""
        made = enrolment.create_token(
            provider=self.provider, label="fleet", created_by=None, actor=SYSTEM_ACTOR, now=clock.now()
        )
        return made.text


def _report(text: str) -> dict[str, Any]:
    """The JSON that the command printed, in the published shape."""
    report: dict[str, Any] = json.loads(text)
    jsonschema.validate(report, json.loads(_SCHEMA.read_text(encoding="utf-8")))
    return report


@pytest.fixture(scope="module")
def addresses() -> tuple[int, int]:
    """Free ports of the portal and of the gateway."""
    return processes.free_port(), processes.free_port()


@pytest.fixture(scope="module")
def gateway(pool: Pool, addresses: tuple[int, int]) -> Gateway:
    made = Gateway(index=0, folder=pool.folder, port=addresses[1])
    pool.gateways.append(made)
    return made.start()


@pytest.fixture(scope="module")
def portal_url(pool: Pool, gateway: Gateway, addresses: tuple[int, int]) -> Iterator[str]:
    """A portal process of its own; its public address is where it listens."""
    url = f"http://127.0.0.1:{addresses[0]}"
    environ = {"DJANGO_SETTINGS_MODULE": "portal.settings.local", "PUBLIC_URL": url, "GATEWAY_URL": gateway.url}
    argv = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--host", "127.0.0.1"]
    argv += ["--port", str(addresses[0]), "--no-access-log", "--no-proxy-headers"]
    process = processes.start(argv, log=pool.folder / "portal.log", environ=gateway.environment() | environ)
    try:
        until("the portal is ready", lambda: _is_ready(url), 30)
        yield url
    finally:
        processes.stop(process)


@pytest.fixture
def trial(pool: Pool, gateway: Gateway, portal_url: str, tmp_path: Path) -> Trial:
    """A provider of its own for each test."""
    return Trial(pool, gateway, portal_url, tmp_path, ProviderFactory(kind=ProviderKind.CONTRACTED))


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
