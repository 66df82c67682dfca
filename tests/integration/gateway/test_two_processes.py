"""The tunnel is in one process, the request in another; tunnels move and processes die."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.accounts.models import ApiKey
from portal.accounts.services import keys
from portal.audit.services import SYSTEM_ACTOR
from portal.core import clock
from tests.fakes import scripts
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = {"model": MODEL, "messages": [{"role": "user", "content": "What is a pool?"}]}


@pytest.fixture(scope="module")
def first(pool: Pool) -> Gateway:
    return pool.gateway(index=0)


@pytest.fixture(scope="module")
def second(pool: Pool) -> Gateway:
    return pool.gateway(index=1)


@pytest.fixture(autouse=True)
def _no_nodes_left(pool: Pool) -> Iterator[None]:
    yield
    pool.disconnect()


@pytest.fixture
def clients(pool: Pool, first: Gateway, second: Gateway) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    with pool.client(first) as one, pool.client(second) as two:
        yield one, two


def _ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json=GOOD | fields)


def test_either_process_serves_and_the_admitting_one_meters(
    pool: Pool, first: Gateway, clients: tuple[httpx.Client, httpx.Client]
) -> None:
    node = pool.connect(pool.machine(), first, scripts.honest())

    answers = [_ask(client) for client in clients] + [_ask(client, stream=True) for client in clients]

    assert [answer.status_code for answer in answers] == [200] * 4
    assert answers[0].json()["choices"] == answers[1].json()["choices"]
    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers[2:])
    records = [pool.record(answer.headers["x-request-id"]) for answer in answers]
    assert len({record.spool_id for record in records}) == 2
    assert len({record.charge_nano for record in records}) == 1
    assert sorted(record.routing["is_local"] for record in records) == [False, False, True, True]
    node.stop()


def test_large_answers_pass_within_their_windows(
    pool: Pool, first: Gateway, clients: tuple[httpx.Client, httpx.Client]
) -> None:
    text = "word " * 60_000

    async def large(reply: scripts.Reply) -> None:
        await reply.whole(scripts.answer(text, prompt=5, completion=500))

    node = pool.connect(pool.machine(), first, large)

    for client in clients:
        assert _ask(client, max_tokens=512).json()["choices"][0]["message"]["content"] == text
    node.stop()


def test_a_customer_who_leaves_is_heard_across_processes(
    pool: Pool, first: Gateway, clients: tuple[httpx.Client, httpx.Client]
) -> None:
    node = pool.connect(pool.machine(), first, scripts.silent)

    with pytest.raises(httpx.ReadTimeout):
        clients[1].post("/v1/chat/completions", json=GOOD | {"stream": True}, timeout=0.5)

    until("the node was canceled", lambda: node.replies and node.replies[-1].canceled.is_set(), 1)
    node.stop()


def test_a_tunnel_moves(
    pool: Pool, first: Gateway, second: Gateway, clients: tuple[httpx.Client, httpx.Client]
) -> None:
    machine = pool.machine()
    node = pool.connect(machine, first, scripts.honest())
    assert [_ask(client).status_code for client in clients] == [200, 200]

    moved = pool.connect(machine, second, scripts.honest())

    assert node.wait_closed(3) == 4409
    assert [_ask(client).status_code for client in clients] == [200, 200]
    assert len(moved.replies) == 2
    moved.stop()


def test_a_revoked_key_is_refused_within_a_second_on_every_process(pool: Pool, first: Gateway, second: Gateway) -> None:
    text = pool.new_key(pool.customer)
    row = ApiKey.objects.latest("id")
    with pool.client(first, key=text) as one, pool.client(second, key=text) as two:
        for client in (one, two):
            until("the key works", lambda client=client: client.get("/v1/models").status_code == 200, 3)

        keys.revoke_key(organization=pool.customer, public_id=row.public_id, actor=SYSTEM_ACTOR, now=clock.now())

        until("both refuse", lambda: {one.get("/v1/models").status_code, two.get("/v1/models").status_code} == {401}, 1)
        assert one.get("/v1/models").json()["error"]["code"] == "revoked_api_key"
        assert two.get("/v1/models").json()["error"]["code"] == "revoked_api_key"


def test_the_peer_socket_lets_nobody_in_who_does_not_know_the_secret(pool: Pool, first: Gateway) -> None:
    path = Path(pool.folder) / "p" / "gateway-0.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(3)
        raw.connect(str(path))
        assert len(raw.recv(32)) == 32
        raw.sendall(b"n" * 32 + b"p" * 32)
        answer = b""
        with contextlib.suppress(OSError):  # closed already, perhaps before we wrote
            raw.sendall(struct.pack(">I", 5) + b"\x01\x00\x00\x00\x01")
            answer = raw.recv(64)

    assert answer == b""


def test_a_stream_through_a_process_that_is_killed_ends_in_the_band_and_costs_nothing(
    pool: Pool, first: Gateway, second: Gateway
) -> None:
    third = pool.gateway(index=2)
    node = pool.connect(pool.machine(), third, scripts.honest("word " * 200, pause_s=0.05))
    with (
        pool.client(second) as client,
        client.stream("POST", "/v1/chat/completions", json=GOOD | {"stream": True, "max_tokens": 400}) as response,
    ):
        lines = response.iter_lines()
        next(lines)
        third.kill()
        rest = [line for line in lines if line.startswith("data: ")]

    last = json.loads(rest[-1][6:])
    assert last["error"]["code"] == "node_error"
    request_id = response.headers["x-request-id"]
    assert pool.record(request_id, "node_fault").charge_nano == 0
    node.stop()


def test_a_dead_owner_is_left_out_at_once(pool: Pool, second: Gateway) -> None:
    fourth = pool.gateway(index=3)
    lost = pool.connect(pool.machine(), fourth, scripts.honest())
    alive = pool.connect(pool.machine(), second, scripts.honest())
    fourth.kill()

    with pool.client(second) as client:
        began = time.monotonic()
        answers = [_ask(client) for _ in range(6)]

    assert [answer.status_code for answer in answers] == [200] * 6
    assert time.monotonic() - began < 5
    assert len(alive.replies) == 6
    lost.stop()
