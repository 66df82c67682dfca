"""The real agent behind real gateways: a body of megabytes, and a deploy under a running stream."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from poolhouse_agent.simulate.tokens import shared

from portal.catalog.models import CatalogModel
from portal.integrations import bus
from portal.nodes.models import Node
from tests.integration.fleet import real_agent
from tests.integration.fleet.conftest import Trial
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

WORDS = "a pool of water " * 200_000  # 3.2 MB


def body(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 8} | fields


@pytest.fixture(scope="module")
def home(pool: Pool, gateway: Gateway, portal_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """One agent for the module; its model takes a prompt of megabytes, and the engine may read it for a while."""
    made = Trial(pool, gateway, portal_url, tmp_path_factory.mktemp("agent"), real_agent.provider())
    _change_model(pool, context_tokens=8_000_000, first_token_timeout_s=60)
    with real_agent.running(made):
        yield made
    _change_model(pool, context_tokens=2_048, first_token_timeout_s=3)


def _change_model(pool: Pool, **fields: int) -> None:
    CatalogModel.objects.filter(pk=pool.model.pk).update(**fields)
    bus.announce("models", pool.model.public_id)


def test_a_body_of_three_megabytes_reaches_the_engine_whole(home: Trial) -> None:
    tokens = len(shared().prompt_ids([{"role": "user", "content": WORDS}], None))

    with home.pool.client(home.gateway) as client:
        answer = until("it is served", lambda: _answered(client, body(WORDS)), 40)

    assert len(WORDS) > 3_000_000
    assert answer["usage"]["prompt_tokens"] == tokens


def test_a_deploy_moves_a_real_agent_and_cuts_no_stream(home: Trial) -> None:
    node = Node.objects.get(provider=home.provider)
    other = Gateway(index=1, folder=home.pool.folder, port=home.gateway.port, environ={"GATEWAY_DRAIN_S": "30"})
    home.pool.gateways.append(other)
    other.start()
    with ExitStack() as stack:
        holder = real_agent.owner(node)
        going, staying = (other, home.gateway) if "@1" in holder else (home.gateway, other)
        client = stack.enter_context(home.pool.client(home.gateway))
        until("it answers", lambda: _answered(client, body("hello")), 20)
        asked = body("write 300 words", stream=True, max_tokens=400)
        lines = stack.enter_context(client.stream("POST", "/v1/chat/completions", json=asked)).iter_lines()
        next(lines)

        assert going.process is not None
        going.process.send_signal(signal.SIGTERM)
        until("another process holds the tunnel", lambda: real_agent.owner(node) not in {"", holder}, 30)
        with httpx.Client(base_url=staying.url, headers=dict(client.headers), timeout=30) as fresh:
            answer = until("it answers there", lambda: _answered(fresh, body("hello")), 30)
        rest = [line for line in lines if line]

    assert rest[-1] == "data: [DONE]"
    assert answer["usage"]["completion_tokens"] > 0
    assert going.process.wait(20) is not None
    going.start()


def _answered(client: httpx.Client, asked: dict[str, Any]) -> Any:
    try:
        response = client.post("/v1/chat/completions", json=asked)
    except httpx.HTTPError:
        return None  # the listener of a process that has just gone
    return response.json() if response.status_code == 200 else None
