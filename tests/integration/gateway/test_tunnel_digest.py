"""The gateway's record holds the digest of the exact bytes that the node saw come and go, for both kinds of answers."""

from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest
from poolhouse_common.receipts import TunnelDigest

from portal.gateway.tunnel import frames
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply, ScriptedNode
from tests.integration.gateway.pool import MODEL, Gateway, Pool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    return pool.gateway()


@pytest.fixture(scope="module")
def node(pool: Pool, gateway: Gateway) -> ScriptedNode:
    return pool.connect(pool.machine(), gateway, scripts.honest())


@pytest.fixture
def client(pool: Pool, gateway: Gateway, node: ScriptedNode) -> Iterator[httpx.Client]:
    with pool.client(gateway) as client:
        yield client


def keeping(taken: list[TunnelDigest]) -> Any:
    """Answer honestly, and take the digest of what goes through the tunnel as an agent does."""

    async def script(reply: Reply) -> None:
        digest = TunnelDigest(reply.head["nonce"], orjson.dumps(reply.body))
        taken.append(digest)
        send = reply._send

        async def noted(message: bytes) -> None:
            kind, _, payload = frames.unpack(message)
            if kind == frames.DATA:
                digest.add(payload)
            await send(message)

        reply._send = noted
        await scripts.honest()(reply)

    return script


@pytest.mark.parametrize("is_stream", [False, True])
def test_both_ends_of_the_tunnel_take_the_same_digest(
    pool: Pool, client: httpx.Client, node: ScriptedNode, is_stream: bool
) -> None:
    taken: list[TunnelDigest] = []
    node.script = keeping(taken)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "What is a pool?"}], "stream": is_stream}

    response = client.post("/v1/chat/completions", json=body)

    assert response.status_code == 200, response.text
    record = pool.record(response.headers["x-request-id"])
    (digest,) = taken
    assert record.tunnel_proof == digest.proof()
    assert len(digest.nonce) == 32
