"""A customer who leaves is noticed at once: the node is told within a second, and what he got is charged."""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from portal.metering.models import UsageRecord
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply, ScriptedNode
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES = [{"role": "user", "content": "Tell me everything."}]
LONG = " ".join(f"word{number}" for number in range(400))


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    return pool.gateway()


@pytest.fixture(scope="module")
def node(pool: Pool, gateway: Gateway) -> ScriptedNode:
    return pool.connect(pool.machine(), gateway, scripts.honest())


@pytest.fixture
def client(pool: Pool, gateway: Gateway) -> Iterator[httpx.Client]:
    with pool.client(gateway) as client:
        yield client


def _body(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": MESSAGES, "max_tokens": 500} | fields


def _record(node: ScriptedNode) -> UsageRecord:
    """Return the record of the request that the node was asked last."""
    request_id, _, _ = node.replies[-1].head["attempt"].partition("/")
    return until("its record", UsageRecord.objects.filter(request_id=request_id).first)


def test_an_aborted_stream_is_canceled_within_a_second_and_charged_for_what_was_delivered(
    client: httpx.Client, node: ScriptedNode
) -> None:
    node.script = scripts.honest(LONG, pause_s=0.02)
    received = ""
    with client.stream("POST", "/v1/chat/completions", json=_body(stream=True)) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                received += json.loads(line[6:])["choices"][0]["delta"].get("content", "")
            if len(scripts.tokens(received)) >= 5:
                break
    left_at = time.monotonic()

    until("the node was canceled", node.replies[-1].canceled.is_set, 1)
    assert time.monotonic() - left_at < 1
    record = _record(node)
    assert record.outcome == "customer_abort"
    assert record.prompt_tokens == scripts.prompt_tokens({"messages": MESSAGES})
    assert 5 <= record.completion_tokens <= 60
    assert record.charge_nano > 0
    assert record.provider_nano > 0


def test_leaving_before_the_first_token_pays_the_prompt(client: httpx.Client, node: ScriptedNode) -> None:
    node.script = scripts.silent
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/chat/completions", json=_body(stream=True), timeout=0.5)

    until("the node was canceled", node.replies[-1].canceled.is_set, 1)
    record = _record(node)
    assert (record.outcome, record.completion_tokens) == ("customer_abort", 0)
    assert record.prompt_tokens > 0


def test_leaving_a_whole_answer_is_noticed_too(client: httpx.Client, node: ScriptedNode) -> None:
    node.script = scripts.silent
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/chat/completions", json=_body(), timeout=0.5)

    until("the node was canceled", node.replies[-1].canceled.is_set, 1)
    assert _record(node).outcome == "customer_abort"


def test_a_reader_who_reads_nothing_slows_the_node_and_costs_no_memory(
    pool: Pool, gateway: Gateway, node: ScriptedNode
) -> None:
    written = 0

    async def flood(reply: Reply) -> None:
        nonlocal written
        await reply.begin()
        while True:
            await reply.delta("x" * 400)
            written += 400

    node.script = flood
    body = json.dumps(_body(stream=True)).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {pool.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", gateway.port)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.sendall(head.encode() + body)
        time.sleep(1.5)
        early = written
        time.sleep(0.5)
        late = written

    assert late - early < 300_000, "the node must wait for its reader"
    until("the node was canceled", node.replies[-1].canceled.is_set, 2)
