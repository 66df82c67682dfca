"""Prompts above a megabyte reach the node whole, by the process's own tunnel and by a peer's."""

import json
from typing import Any

import httpx
import pytest

from portal.catalog.models import CatalogModel
from portal.integrations import bus
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

WORDS = "a pool of water " * 200_000  # 3.2 MB
HELLO = {"protocol": 1, "deployments": [{"model": MODEL, "state": "ready", "max_concurrency": 4}]}


async def _counting(reply: Reply) -> None:
    """Answer with the prompt's length, counted at the node."""
    text = str(len(reply.body["messages"][0]["content"]))
    await reply.whole(scripts.answer(text, prompt=900_000, completion=3))


@pytest.fixture(scope="module")
def gateways(pool: Pool) -> list[Gateway]:
    # A context that such a prompt fits into.
    CatalogModel.objects.filter(pk=pool.model.pk).update(context_tokens=8_000_000)
    bus.announce("models", pool.model.public_id)
    return [pool.gateway(index=0), pool.gateway(index=1)]


def _ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": WORDS}], "max_tokens": 8} | fields
    return client.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize("asked", [0, 1], ids=["its own tunnel", "a peer's tunnel"])
def test_a_prompt_of_three_megabytes_arrives_whole(pool: Pool, gateways: list[Gateway], asked: int) -> None:
    node = pool.connect(pool.machine(), gateways[0], _counting, max_body_bytes=8_454_144)
    with pool.client(gateways[asked]) as client:
        response = until("it is served", lambda: (r := _ask(client)).status_code == 200 and r)

    assert response.json()["choices"][0]["message"]["content"] == str(len(WORDS))
    assert node.replies[-1].body["messages"][0]["content"] == WORDS
    assert node.replies[-1].head["body_bytes"] > 3_000_000
    record = pool.record(response.headers["x-request-id"])
    assert record.charge_nano > 0
    assert record.routing["is_local"] is (asked == 0)
    pool.disconnect()


@pytest.mark.parametrize("asked", [0, 1], ids=["its own tunnel", "a peer's tunnel"])
def test_an_older_agent_gets_no_large_body_and_the_customer_is_told(
    pool: Pool, gateways: list[Gateway], asked: int
) -> None:
    node = pool.connect(pool.machine(), gateways[0], _counting)
    with pool.client(gateways[asked]) as client:
        small = [{"role": "user", "content": "Hi"}]
        until("it is routed to", lambda: _ask(client, messages=small).status_code == 200)
        served = len(node.replies)

        response = _ask(client)

    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")
    assert len(node.replies) == served
    assert pool.record(response.headers["x-request-id"], "customer_error").charge_nano == 0
    pool.disconnect()


def test_small_requests_get_between_the_pieces(pool: Pool, gateways: list[Gateway]) -> None:
    node = pool.connect(pool.machine(), gateways[0], _counting, max_body_bytes=8_454_144)
    with pool.client(gateways[0]) as client:
        until("it is served", lambda: _ask(client).status_code == 200)
        small = _ask(client, messages=[{"role": "user", "content": "Hi"}])

    assert small.json()["choices"][0]["message"]["content"] == "2"
    kinds = [json.loads(json.dumps(reply.head)).get("body_bytes") for reply in node.replies]
    assert kinds[-1] is None
    pool.disconnect()
