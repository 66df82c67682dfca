"""Large bodies between two processes of a host: gathered within a bound, then sent on to the node in pieces."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from portal.gateway.tunnel import frames, peer_server
from portal.gateway.tunnel.connection import NodeTunnel
from portal.gateway.tunnel.peer_client import PeerLinks
from portal.gateway.tunnel.peer_server import PeerServer
from portal.gateway.tunnel.streams import NodeStream
from tests.fakes.line import HandingLine

KEY = b"k" * 32
BODY = b"x" * 2_000_000


class _Node:
    """One node's tunnel, as the process that holds it sees it."""

    def __init__(self) -> None:
        self.got: list[tuple[int, int, bytes]] = []
        self.tunnel = NodeTunnel(node_id=7, node_public_id="node_7", generation=1, line=HandingLine(self._take))
        self.tunnel.max_body_bytes = frames.MAX_BODY_BYTES

    def local(self, node_id: int) -> NodeTunnel | None:
        return self.tunnel if node_id == self.tunnel.node_id else None

    def _take(self, message: bytes) -> None:
        self.got.append(frames.unpack(message))


@pytest.fixture
def node() -> _Node:
    return _Node()


@pytest.fixture
async def open_stream(node: _Node, tmp_path: Path) -> AsyncIterator[Any]:
    """Send the beginning of a request through a peer; return its stream."""
    path = str(tmp_path / "peer.sock")
    server, links = PeerServer(path=path, key=KEY, tunnels=node), PeerLinks(key=KEY)
    await server.start()

    async def begin(body: bytes = BODY) -> NodeStream:
        payload = frames.pack_request({"model": "m"}, body)
        return await links.open(path, 7, payload, body_bytes=len(body))

    yield begin
    await links.stop()
    await server.stop()


async def _until(node: _Node, kind: int) -> tuple[int, int, bytes]:
    async with asyncio.timeout(3):
        while not (found := [row for row in node.got if row[0] == kind]):
            await asyncio.sleep(0.005)
    return found[-1]


async def _whole(node: _Node, *, times: int) -> None:
    """Wait until so many bodies have arrived."""
    async with asyncio.timeout(3):
        while sum(len(payload) for _, _, payload in node.got) < times * len(BODY):
            await asyncio.sleep(0.005)


async def test_a_body_is_sent_on_once_it_is_whole(node: _Node, open_stream: Any) -> None:
    stream = await open_stream()
    await asyncio.sleep(0.05)
    assert node.got == []

    await stream.send_body(frames.body_pieces(BODY))
    await _whole(node, times=1)

    head, _, first = node.got[0][2].partition(b"\n")
    assert head == b'{"model":"m","body_bytes":2000000}'
    assert first + b"".join(payload for kind, _, payload in node.got if kind == frames.BODY) == BODY
    assert max(len(payload) for kind, _, payload in node.got if kind == frames.BODY) <= frames.BODY_PIECE_BYTES


async def test_the_answer_comes_back(node: _Node, open_stream: Any) -> None:
    stream = await open_stream(b"{}")
    _, number, _ = await _until(node, frames.REQUEST)

    node.tunnel.mux.receive(frames.HEAD, number, b"{}")
    node.tunnel.mux.receive(frames.END, number, b"{}")

    assert await stream.next(3) == (frames.HEAD, b"{}")
    assert await stream.next(3) == (frames.END, b"{}")


async def test_an_older_agent_is_not_asked(node: _Node, open_stream: Any) -> None:
    node.tunnel.max_body_bytes = frames.PLAIN_BODY_BYTES
    stream = await open_stream()

    await stream.send_body(frames.body_pieces(BODY))

    kind, payload = await stream.next(3)
    assert (kind, frames.parse_object(payload)["code"]) == (frames.FAIL, "body_too_large")
    assert node.got == []


async def test_a_customer_who_leaves_while_his_body_is_gathered(node: _Node, open_stream: Any) -> None:
    stream = await open_stream()
    await stream.close()
    await asyncio.sleep(0.05)
    assert node.got == []

    other = await open_stream()
    await other.send_body(frames.body_pieces(BODY))

    assert (await _until(node, frames.BODY))[1] == 1


async def test_what_is_gathered_at_once_is_bounded(
    node: _Node, open_stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_server, "_MAX_GATHERED_BYTES", 3_000_000)
    waiting, refused = await open_stream(), await open_stream()

    kind, payload = await refused.next(3)
    assert (kind, frames.parse_object(payload)["code"]) == (frames.FAIL, "too_many_streams")
    await waiting.send_body(frames.body_pieces(BODY))
    await _whole(node, times=1)

    third = await open_stream()
    await third.send_body(frames.body_pieces(BODY))
    await _whole(node, times=2)
