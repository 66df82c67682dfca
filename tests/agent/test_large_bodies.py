"""Requests whose body comes in pieces: served once they are whole, bounded before."""

import json

import pytest
from poolhouse_agent.errors import ProtocolError, RequestRefused
from poolhouse_agent.protocol import frames
from poolhouse_agent.protocol.frames import RequestHead
from poolhouse_agent.runtime import Agent
from poolhouse_agent.tunnel import bodies
from poolhouse_agent.tunnel.bodies import Bodies

from tests.fakes.pool import CANCEL, GOAWAY, Pool

BODY = 0x05
HEAD_LINE = {"method": "POST", "path": "/v1/chat/completions", "model": "acme/demo", "attempt": "a/1", "nonce": "00"}


def chat_bytes() -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "hello " * 20}], "max_tokens": 3}).encode()


def head(size: int | None) -> RequestHead:
    return RequestHead(**HEAD_LINE, body_bytes=size)


async def test_a_body_in_pieces_is_served_once_it_is_whole(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    body = chat_bytes()

    await tunnel.begin(body[:40], body_bytes=len(body))
    await tunnel.send(BODY, 1, body[40:90])
    await tunnel.send(BODY, 1, body[90:])
    answer = await tunnel.finish(1)

    assert answer.failure is None
    assert answer.head["status"] == 200


async def test_the_hello_says_how_large_a_body_may_be(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    assert tunnel.hello["max_body_bytes"] == 8_454_144


async def test_a_canceled_body_is_forgotten(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    await tunnel.begin(b"{", body_bytes=100)

    await tunnel.send(CANCEL, 1)
    answer = await tunnel.finish(1)

    assert answer.failure["code"] == "canceled"
    await tunnel.send(BODY, 1, b"x" * 99)
    assert (await tunnel.ask(chat_bytes())).failure is None


async def test_a_body_that_had_begun_is_served_when_the_gateway_goes_away(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    body = chat_bytes()
    await tunnel.begin(body[:40], body_bytes=len(body))

    await tunnel.send(GOAWAY, 0)
    await tunnel.send(BODY, 1, body[40:])
    answer = await tunnel.finish(1)

    assert answer.failure is None
    assert answer.head["status"] == 200


async def test_more_than_was_announced_closes_the_tunnel(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    await tunnel.begin(b"{", body_bytes=10)

    await tunnel.send(BODY, 1, b"x" * 10)
    await pool.tunnel(after=1)

    assert tunnel.close_code == 4400


def test_pieces_are_joined_in_their_order() -> None:
    found = Bodies()

    assert found.begin(1, head(6), b"ab") is None
    assert found.add(1, b"cd") is None
    assert found.add(1, b"ef") == (head(6), b"abcdef")
    assert len(found) == 0


@pytest.mark.parametrize("size", [None, 2])
def test_a_body_that_is_whole_needs_no_pieces(size: int | None) -> None:
    assert Bodies().begin(1, head(size), b"ab") == b"ab"


def test_a_body_above_the_maximum_is_refused() -> None:
    with pytest.raises(RequestRefused) as refused:
        Bodies().begin(1, head(frames.MAX_BODY_BYTES + 1), b"ab")

    assert refused.value.code == "body_too_large"


def test_what_is_gathered_at_once_is_bounded_and_freed() -> None:
    found = Bodies()
    for stream in range(8):
        found.begin(stream, head(frames.MAX_BODY_BYTES), b"a")
    with pytest.raises(RequestRefused) as refused:
        found.begin(9, head(frames.MAX_BODY_BYTES), b"a")

    assert refused.value.code == "too_many_streams"
    assert found.drop(0)
    assert not found.drop(0)
    assert found.begin(9, head(frames.MAX_BODY_BYTES), b"a") is None
    assert bodies.MAX_GATHERED_BYTES == 8 * frames.MAX_BODY_BYTES


@pytest.mark.parametrize("piece", [b"", b"x" * 9])
def test_empty_and_surplus_pieces_break_the_protocol(piece: bytes) -> None:
    found = Bodies()
    found.begin(1, head(10), b"ab")

    with pytest.raises(ProtocolError):
        found.add(1, piece)
