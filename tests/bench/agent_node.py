"""The real agent before the HTTP stand-in of an engine: enrolled, deployed and routed to as any owner's machine is."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from portal.sandbox import processes as children
from tests.bench.ground import Ours

if TYPE_CHECKING:
    from portal.providers.models import Provider

SERVED = "m"  # what the stand-in calls its model
_NAME = "bench-agent"
_CONCURRENCY = 256
_READY_S = 60.0


@contextmanager
def running(ours: Ours, *, engine_port: int, model: str) -> Iterator[int]:
    """Put the agent in the place of the stand-in nodes; yield its process id once requests are routed to it."""
    ours.disconnect()
    port = children.free_port()
    url = f"http://127.0.0.1:{port}"
    portal = ours.start(_portal(port), "portal", **_addresses(ours, url))
    agent = None
    try:
        _until("the portal is ready", lambda: httpx.get(f"{url}/readyz", timeout=5).status_code == 200)
        folders = _join(ours, url=url, engine_port=engine_port, model=model)
        agent = ours.start([sys.executable, "-m", "poolhouse_agent", *folders, "run"], "agent", **_addresses(ours, url))
        _deploy(model)
        _until("the agent is routed to", lambda: _answers(ours, model))
        yield agent.pid
    finally:
        for process in (agent, portal):
            if process is not None:
                children.stop(process)


def _portal(port: int) -> list[object]:
    options = ["--host", "127.0.0.1", "--port", port, "--no-access-log", "--no-proxy-headers"]
    return [sys.executable, "-m", "uvicorn", "portal.asgi:application", *options]


def _addresses(ours: Ours, url: str) -> dict[str, str]:
    return {"DJANGO_SETTINGS_MODULE": "portal.settings.local", "PUBLIC_URL": url, "GATEWAY_URL": ours.url}


def _join(ours: Ours, *, url: str, engine_port: int, model: str) -> list[object]:
    """Enrol the agent as its owner would; return where it is configured and keeps its state."""
    home = ours.folder / "agent"
    home.mkdir(exist_ok=True)
    served = f"{{ url = {json.dumps(f'http://127.0.0.1:{engine_port}')}, served_name = {json.dumps(SERVED)} }}"
    (home / "agent.toml").write_text(f"[external]\n{json.dumps(model)} = {served}\n", encoding="utf-8")
    token = home / "token"
    token.touch(mode=0o600)
    token.write_text(_token(), encoding="utf-8")
    folders: list[object] = ["--config", home / "agent.toml", "--state", home / "state"]
    join = ["join", "--server", url, "--token-file", token, "--name", _NAME]
    argv = [str(part) for part in (sys.executable, "-m", "poolhouse_agent", *folders, *join)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path.cwd(), timeout=_READY_S)
    if done.returncode:
        raise RuntimeError(f"the agent did not join: {done.stderr.strip()[-800:]}")
    return folders


def _token() -> str:
    from portal.audit.services import SYSTEM_ACTOR
    from portal.core import clock
    from portal.nodes.services import enrolment

    made = enrolment.create_token(
        provider=_provider(), label=_NAME, created_by=None, actor=SYSTEM_ACTOR, now=clock.now()
    )
    return made.text


def _provider() -> "Provider":
    """Return an owner under contract who may bring an engine of his own."""
    from portal.providers.models import ProviderKind
    from tests.factories.providers import ProviderFactory

    return ProviderFactory(kind=ProviderKind.CONTRACTED, may_use_external_engine=True)


def _deploy(model: str) -> None:
    from portal.audit.services import SYSTEM_ACTOR
    from portal.catalog.models import CatalogModel
    from portal.core import clock
    from portal.nodes.models import EngineKind, Node
    from portal.nodes.services import deployments

    deployments.deploy(
        node=Node.objects.get(name=_NAME),
        model=CatalogModel.objects.get(public_id=model),
        engine=EngineKind.EXTERNAL,
        settings={},
        max_concurrency=_CONCURRENCY,
        actor=SYSTEM_ACTOR,
        now=clock.now(),
    )


def _answers(ours: Ours, model: str) -> bool:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 16}
    headers = {"authorization": f"Bearer {ours.pool.key}"}
    return httpx.post(f"{ours.url}/v1/chat/completions", json=body, headers=headers, timeout=5).status_code == 200


def _until(what: str, probe: Callable[[], bool]) -> None:
    from tests.integration.gateway.pool import until

    def tried() -> bool:
        try:
            return probe()
        except httpx.HTTPError:
            return False

    until(what, tried, _READY_S)
