"""What a node does to its tunnel ends that tunnel, with a code and evidence; everybody else goes on."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from portal.gateway.tunnel import frames
from portal.gateway.tunnel.frames import DATA, END, HEAD, HELLO, STATUS, pack
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply
from tests.integration.gateway.adversarial.conftest import Arena
from tests.integration.gateway.pool import MODEL, Machine, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("calm")]

HELLO_BODY = {"protocol": 1, "deployments": [{"model": MODEL, "state": "ready", "max_concurrency": 4}]}
STATUS_BODY = json.dumps({"deployments": HELLO_BODY["deployments"]}).encode()

# Who goes on sending after the farewell may find the connection reset before he has read it.
SEEN_BY_WHO_FLOODS = {4400, 1006}

FLOODS: dict[str, tuple[list[bytes], str]] = {
    "STATUS without end": ([pack(STATUS, 0, STATUS_BODY)] * 1_000, "tunnel_flood"),
    "a second HELLO": ([pack(HELLO, 0, json.dumps(HELLO_BODY).encode())], "tunnel_protocol"),
    "unknown frames": ([pack(0x7F, 0)] * 1_000, "tunnel_protocol"),
    "frames for streams it does not own": ([pack(DATA, 4_000, b"data: x\n\n")] * 1_000, "tunnel_protocol"),
    "frames for the connection": ([pack(DATA, 0, b"x")], "tunnel_protocol"),
    "a gateway's own frames": ([pack(frames.REQUEST, 1, b"{}\n{}")], "tunnel_protocol"),
    "messages without a header": ([b"x"] * 1_000, "tunnel_protocol"),
    "a message above a megabyte": ([pack(DATA, 1, b"x" * 1_100_000)], "tunnel_message_too_large"),
    "a giant STATUS": ([pack(STATUS, 0, b'{"deployments": [' + b" " * 100_000 + b"]}")], "tunnel_protocol"),
    "a STATUS nested deeply": ([pack(STATUS, 0, b"[" * 60_000)], "tunnel_protocol"),
    "a STATUS of ten thousand models": (
        [pack(STATUS, 0, json.dumps({"deployments": [{"model": "m"}] * 3_000}).encode())],
        "tunnel_protocol",
    ),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_its_own_tunnel(arena: Arena, name: str) -> None:
    messages, rule = FLOODS[name]
    node = arena.hostile(scripts.honest())

    node.flood(messages)

    assert node.wait_closed() in ({1009} if rule == "tunnel_message_too_large" else SEEN_BY_WHO_FLOODS)
    arena.recorded(rule)


async def _more_than_the_window(reply: Reply) -> None:
    await reply.begin()
    while True:
        await reply.frame(DATA, b": " + b"x" * 60_000 + b"\n\n")


async def _empty_frames(reply: Reply) -> None:
    await reply.begin()
    while True:
        await reply.frame(DATA, b"")


ON_A_STREAM = {
    "empty frames": (_empty_frames, "tunnel_window"),
    "more than its window": (_more_than_the_window, "tunnel_window"),
}


@pytest.mark.parametrize("name", ON_A_STREAM)
def test_a_stream_that_overflows_ends_its_tunnel(arena: Arena, name: str) -> None:
    script, rule = ON_A_STREAM[name]
    node = arena.hostile(script)
    node.is_deaf = True

    response = arena.ask(stream=True)

    assert response.status_code == 502
    assert arena.ended(response).charge_nano == 0
    assert node.wait_closed() in SEEN_BY_WHO_FLOODS
    arena.recorded(rule)


def test_frames_after_the_end_of_a_stream_end_the_tunnel(arena: Arena) -> None:
    async def goes_on(reply: Reply) -> None:
        await scripts.honest()(reply)
        await reply.frame(DATA, b"data: more\n\n")

    node = arena.hostile(goes_on)

    response = arena.ask(stream=True)

    assert response.text.endswith("data: [DONE]\n\n")
    assert arena.ended(response).outcome == "completed"
    assert node.wait_closed() == 4400
    arena.recorded("tunnel_protocol")


def test_a_canceled_stream_that_goes_on_ends_the_tunnel(arena: Arena) -> None:
    async def deaf(reply: Reply) -> None:
        await reply.begin()
        await reply.event({"choices": [{"index": 5, "delta": {}}]})
        reply.canceled.clear()
        while True:
            await reply.frame(DATA, b"x" * 60_000)

    node = arena.hostile(deaf)
    node.is_deaf = True

    response = arena.ask(stream=True)

    assert response.status_code == 502
    assert node.wait_closed() in SEEN_BY_WHO_FLOODS
    arena.recorded("tunnel_window")


BENEATH: dict[str, tuple[Any, int, str]] = {}


def _beneath(rule: str, code: int) -> Any:
    def keep(attack: Any) -> Any:
        BENEATH[attack.__name__.strip("_")] = (attack, code, rule)
        return attack

    return keep


@_beneath("tunnel_flood", 4400)
async def _pings_for_ever(socket: aiohttp.ClientWebSocketResponse) -> None:
    for _ in range(2_000):
        await socket.ping(b"x")


@_beneath("tunnel_flood", 4400)
async def _pongs_nobody_asked_for(socket: aiohttp.ClientWebSocketResponse) -> None:
    for _ in range(2_000):
        await socket.pong(b"x")


@_beneath("tunnel_message_too_large", 4400)
async def _empty_fragments_for_ever(socket: aiohttp.ClientWebSocketResponse) -> None:
    transport = socket._writer.transport
    first, fragment = b"\x02\x80\0\0\0\0", b"\x00\x80\0\0\0\0"
    transport.write(first + fragment * 20_000)


@_beneath("tunnel_protocol", 4400)
async def _texts(socket: aiohttp.ClientWebSocketResponse) -> None:
    await socket.send_str("hello")


@_beneath("tunnel_protocol", 1002)
async def _reserved_bits(socket: aiohttp.ClientWebSocketResponse) -> None:
    socket._writer.transport.write(b"\xf2\x80\0\0\0\0")


@_beneath("tunnel_protocol", 4400)
async def _a_million_small_messages(socket: aiohttp.ClientWebSocketResponse) -> None:
    message = b"\x82\x85\0\0\0\0" + pack(STATUS, 0)
    for _ in range(100):
        socket._writer.transport.write(message * 10_000)
        await asyncio.sleep(0)


@pytest.mark.parametrize("name", BENEATH)
def test_what_is_no_message_ends_the_tunnel_too(arena: Arena, name: str) -> None:
    attack, code, rule = BENEATH[name]
    node = arena.hostile(scripts.honest())
    before = arena.memory_kib

    node.attack(attack)

    assert node.wait_closed() in {code, *SEEN_BY_WHO_FLOODS}
    arena.recorded(rule)
    assert arena.memory_kib - before < 32_768


@pytest.mark.parametrize(
    "hello",
    [
        pack(HELLO, 0, b'{"protocol": 1, "deployments": [' + b" " * 70_000 + b"]}"),
        pack(HELLO, 0, b"[" * 60_000),
        pack(HELLO, 0, b'{"protocol": 1, "deployments": [], "max_body_bytes": "many"}'),
        pack(HELLO, 1, json.dumps(HELLO_BODY).encode()),
        pack(END, 1, b"{}"),
        pack(HEAD, 0, b"{}"),
    ],
    ids=["giant", "nested", "odd size", "on a stream", "an end", "a head"],
)
def test_a_hello_that_is_none_opens_no_tunnel(arena: Arena, hello: bytes) -> None:
    machine: Machine = arena.pool.machine(node_class="community")
    node = arena.pool.dial(machine, arena.gateway, scripts.honest(), hello=hello)

    assert node.wait_closed() == 4400
    from portal.trust.models import NodeEvidence

    found = until("evidence", lambda: NodeEvidence.objects.filter(node=machine.node).first(), 5)
    assert (found.rule, found.count) == ("tunnel_protocol", 1)
    machine.node.deployments.update(desired="stopped")
    node.stop()
