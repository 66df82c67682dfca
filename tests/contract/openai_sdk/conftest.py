"""A whole serving side of real processes: portal, gateway and an agent with its simulated engine."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.core import clock
from portal.nodes.models import Deployment, EngineKind, Node
from portal.nodes.services import deployments, enrolment
from portal.providers.models import ProviderKind
from portal.sandbox import processes
from tests.factories.billing import EarningProviderFactory
from tests.integration.gateway.conftest import _django_db_helper, pool
from tests.integration.gateway.pool import Gateway, Pool, until

__all__ = ["_django_db_helper", "pool"]


@dataclass
class Served:
    """The pool, its gateway and the node whose agent is connected to it."""

    pool: Pool
    gateway: Gateway
    node: Node

    def client(self, key: str | None = None, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(
            api_key=key or self.pool.key, base_url=f"{self.gateway.url}/v1", max_retries=0, timeout=30, **options
        )


@pytest.fixture(scope="module")
def served(pool: Pool) -> Iterator[Served]:
    """One node of a contracted provider, joined, deployed and ready."""
    gateway = Gateway(index=0, folder=pool.folder)
    pool.gateways.append(gateway)
    started = []
    try:
        port = processes.free_port()
        portal = {
            "DJANGO_SETTINGS_MODULE": "portal.settings.local",
            "PUBLIC_URL": f"http://127.0.0.1:{port}",
            "GATEWAY_URL": gateway.url,
        }
        argv = ["-m", "uvicorn", "portal.asgi:application", "--port", str(port)]
        started.append(_start(pool, gateway, "portal", argv, portal))
        gateway.environ |= {"PUBLIC_URL": portal["PUBLIC_URL"], "GATEWAY_URL": gateway.url}
        gateway.start()
        until("the portal answers", lambda: _answers(f"http://127.0.0.1:{port}/healthz"), 30)
        node = _join(pool, gateway, portal)
        agent = ["-m", "poolhouse_agent", *_folders(pool.folder), "run"]
        started.append(_start(pool, gateway, "agent", agent, {}))
        deployments.deploy(
            node=node,
            model=pool.model,
            engine=EngineKind.SIMULATE,
            settings={"tokens_per_second": 100},
            max_concurrency=16,
            actor=SYSTEM_ACTOR,
            now=clock.now(),
        )
        ready: Callable[[], bool] = lambda: Deployment.objects.get(node=node).observed == "ready"  # noqa: E731
        until("the deployment is ready", ready, 60)
        until("the tunnel is there", lambda: _models(gateway, pool)["data"][0]["is_ready"], 10)
        yield Served(pool, gateway, node)
    finally:
        for process in reversed(started):
            processes.stop(process)


def _environ(gateway: Gateway, more: dict[str, str]) -> dict[str, str]:
    agent = str(Path(__file__).parents[3] / "agent")
    path = os.pathsep.join([agent, os.environ.get("PYTHONPATH", "")])
    return {**gateway.environment(), "PYTHONPATH": path, **more}


def _start(pool: Pool, gateway: Gateway, name: str, argv: list[str], more: dict[str, str]) -> Any:
    log = pool.folder / f"{name}.log"
    return processes.start([sys.executable, *argv], log=log, environ=_environ(gateway, more))


def _folders(folder: Path) -> list[str]:
    return ["--config", str(folder / "agent.toml"), "--state", str(folder / "agent-state")]


def _join(pool: Pool, gateway: Gateway, portal: dict[str, str]) -> Node:
    provider = EarningProviderFactory(kind=ProviderKind.CONTRACTED)
    token = enrolment.create_token(
        provider=provider,
        label="test",
        created_by=None,
        actor=SYSTEM_ACTOR,
        now=clock.now(),
        ttl=timedelta(minutes=5),
    )
    (pool.folder / "agent.toml").write_text("")
    (pool.folder / "token").write_text(token.text)
    (pool.folder / "token").chmod(0o600)
    argv = ["-m", "poolhouse_agent", *_folders(pool.folder), "join", "--server", portal["PUBLIC_URL"]]
    argv += ["--token-file", str(pool.folder / "token"), "--name", "node-1", "--simulate", "rtx4090x2"]
    process = _start(pool, gateway, "join", argv, {})
    assert process.wait(30) == 0, (pool.folder / "join.log").read_text()
    return Node.objects.get(provider=provider)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code < 500
    except httpx.HTTPError:
        return False


def _models(gateway: Gateway, pool: Pool) -> Any:
    with pool.client(gateway) as client:
        return client.get("/v1/models").json()
