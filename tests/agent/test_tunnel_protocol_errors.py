"""A gateway that breaks the protocol loses its tunnel; the agent survives and comes back."""

import json

import pytest
from poolhouse_agent.runtime import Agent

from tests.fakes.pool import CANCEL, GOAWAY, HEAD, REQUEST, WINDOW, Pool

SHORT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
HEAD_LINE = {"method": "POST", "path": "/v1/chat/completions", "model": "acme/demo", "attempt": "a/1", "nonce": "00"}


def raw(frame_type: int, stream: int, payload: bytes = b"") -> bytes:
    return bytes((frame_type,)) + stream.to_bytes(4, "big") + payload


def request(head: object) -> bytes:
    return raw(REQUEST, 1, json.dumps(head).encode() + b"\n{}")


BAD = {
    "empty": b"",
    "torn header": b"\x01\x00",
    "unknown type": raw(0x7F, 1),
    "a type only agents send": raw(HEAD, 1, b"{}"),
    "cancel of a stream never opened": raw(CANCEL, 99),
    "window of a stream never opened": raw(WINDOW, 99, b"\0\0\0\1"),
    "window of three bytes": raw(WINDOW, 1, b"\0\0\1"),
    "goaway on a stream": raw(GOAWAY, 4),
    "request on stream 0": raw(REQUEST, 0, json.dumps(HEAD_LINE).encode() + b"\n{}"),
    "request without line end": raw(REQUEST, 1, b"{}"),
    "request head is no JSON": raw(REQUEST, 1, b"{nope\n{}"),
    "request head is a list": request([1]),
    "request head lacks the model": request({**HEAD_LINE, "model": None}),
    "request head of a thousand levels": raw(REQUEST, 1, b"[" * 100_000 + b"\n{}"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_frame_closes_the_tunnel_and_a_new_one_works(name: str, pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    await tunnel.socket.send_bytes(BAD[name])
    again = await pool.tunnel(after=1)

    assert tunnel.close_code == 4400
    assert (await again.ask(SHORT)).failure is None


async def test_a_text_message_closes_the_tunnel(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    await tunnel.socket.send_str("hello")
    again = await pool.tunnel(after=1)

    assert tunnel.close_code == 4400
    assert (await again.ask(SHORT)).failure is None


async def test_a_message_above_one_mebibyte_closes_the_tunnel(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    await tunnel.socket.send_bytes(raw(REQUEST, 1, b"x" * (1 << 20)))
    again = await pool.tunnel(after=1)

    assert tunnel.close_code == 1009
    assert (await again.ask(SHORT)).failure is None


async def test_a_stream_opened_twice_closes_the_tunnel(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    stream = await tunnel.begin(SHORT)
    await tunnel.finish(stream)

    await tunnel.socket.send_bytes(raw(REQUEST, stream, json.dumps(HEAD_LINE).encode() + b"\n{}"))
    again = await pool.tunnel(after=1)

    assert tunnel.close_code == 4400
    assert (await again.ask(SHORT)).failure is None


async def test_a_window_beyond_all_reason_closes_the_tunnel(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    stream = await tunnel.begin({**SHORT, "stream": True, "max_tokens": 900})

    for _ in range(2):
        await tunnel.send(WINDOW, stream, (0xFFFFFFFF).to_bytes(4, "big"))
    await pool.tunnel(after=1)

    assert tunnel.close_code == 4400
