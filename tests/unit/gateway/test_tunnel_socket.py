"""The tunnel's WebSocket, fed with bytes: what is one message stays one, however it comes."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState
from websockets.speedups import apply_mask

from portal.gateway.tunnel import frames
from portal.gateway.tunnel.socket import TUNNEL, BoundedWebSocket

HANDSHAKE = (
    b"GET /agent/v1/tunnel HTTP/1.1\r\nhost: gateway\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
TEXT, BINARY, CONTINUATION, PING = 1, 2, 0, 9
MASK = b"\x11\x22\x33\x44"


class _Transport(asyncio.Transport):
    """Where the socket writes; it says whether it may be read from."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 1), "peername": ("127.0.0.1", 2)})
        self.written = b""
        self.is_reading_now = True
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class _Tunnel:
    """One accepted connection whose messages are gathered."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.goodbye: dict[str, Any] = {}
        self.transport = _Transport()
        self.attached = asyncio.Event()
        config = uvicorn.Config(
            self._serve, interface="asgi3", ws=BoundedWebSocket, ws_per_message_deflate=False, ws_max_size=1_048_576
        )
        config.load()
        self.socket = BoundedWebSocket(config=config, server_state=ServerState(), app_state={})
        self.socket.connection_made(self.transport)

    async def _serve(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        scope["extensions"][TUNNEL].deliver(self._take)
        self.attached.set()
        self.goodbye = await receive()

    def _take(self, message: bytes) -> None:
        if message == b"against the protocol":
            raise frames.ProtocolError("no such frame", rule="tunnel_window")
        self.got.append(message)

    async def feed(self, pieces: Sequence[bytes]) -> None:
        """Give it the pieces, each when it reads again."""
        for piece in pieces:
            async with asyncio.timeout(2):
                while not self.transport.is_reading_now and not self.goodbye:
                    await asyncio.sleep(0)
            self.socket.data_received(piece)
        for _ in range(20):
            await asyncio.sleep(0)

    async def end(self) -> None:
        self.socket.connection_lost(None)
        await asyncio.sleep(0)


async def _tunnel() -> _Tunnel:
    tunnel = _Tunnel()
    tunnel.socket.data_received(HANDSHAKE)
    async with asyncio.timeout(2):
        await tunnel.attached.wait()
    return tunnel


def frame(payload: bytes, opcode: int = BINARY, *, is_last: bool = True) -> bytes:
    """Return one masked frame, as a client sends it."""
    first, size = (0x80 if is_last else 0) | opcode, len(payload)
    if size < 126:
        head = struct.pack(">BB", first, 0x80 | size)
    elif size < 65_536:
        head = struct.pack(">BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", first, 0x80 | 127, size)
    return head + MASK + apply_mask(payload, MASK)


def _in_fragments(payload: bytes) -> bytes:
    half = len(payload) // 2
    parts = frame(payload[:half], is_last=False), frame(b"", PING), frame(payload[half:], CONTINUATION)
    return b"".join(parts)


_SIZES = st.sampled_from((0, 1, 5, 125, 126, 127, 300, 65_535, 65_536, 70_000))
_MESSAGES = st.lists(st.tuples(_SIZES, st.booleans()), min_size=1, max_size=6)


@given(messages=_MESSAGES, cuts=st.lists(st.integers(0, 200_000), max_size=12))
def test_messages_come_whole_and_in_order_wherever_the_bytes_are_cut(
    messages: list[tuple[int, bool]], cuts: list[int]
) -> None:
    sent = [bytes([number]) * size for number, (size, _) in enumerate(messages)]
    wire = b"".join(
        _in_fragments(payload) if is_split else frame(payload)
        for payload, (_, is_split) in zip(sent, messages, strict=True)
    )
    ends = sorted({*(cut % (len(wire) + 1) for cut in cuts), 0, len(wire)})
    pieces = [wire[start:end] for start, end in pairwise(ends)]

    async def feed() -> list[bytes]:
        tunnel = await _tunnel()
        await tunnel.feed(pieces)
        await tunnel.end()
        return tunnel.got

    assert asyncio.run(feed()) == sent


async def test_many_messages_of_one_read_leave_others_their_turn() -> None:
    tunnel = await _tunnel()

    tunnel.socket.data_received(b"".join(frame(b"%d" % number) for number in range(1_000)))
    first = len(tunnel.got)
    await tunnel.feed([])

    assert (first, tunnel.got) == (256, [b"%d" % number for number in range(1_000)])
    assert tunnel.transport.is_reading_now
    await tunnel.end()


@pytest.mark.parametrize(
    ("wire", "code", "rule"),
    [
        pytest.param(frame(b"text", TEXT), 4400, "tunnel_protocol", id="text"),
        pytest.param(frame(b"against the protocol"), 4400, "tunnel_window", id="what-the-streams-refuse"),
        pytest.param(b"\x82\x04\0\0\0\0data", 1002, "tunnel_protocol", id="not-masked"),
        pytest.param(struct.pack(">BBQ", 0x82, 0xFF, 1_048_577) + MASK, 1009, "tunnel_message_too_large", id="huge"),
        pytest.param(b"\xc2" + frame(b"x")[1:], 1002, "tunnel_protocol", id="reserved-bit"),
        pytest.param(frame(b"a", is_last=False) + frame(b"b"), 1002, "tunnel_protocol", id="message-in-a-message"),
        pytest.param(frame(b"", is_last=False) + frame(b"", 0, is_last=False) * 70, 4400, "tunnel_message_too_large",
                     id="fragments-without-end"),
    ],
)  # fmt: skip
async def test_what_is_no_message_ends_the_connection_and_names_the_rule(wire: bytes, code: int, rule: str) -> None:
    tunnel = await _tunnel()

    await tunnel.feed([frame(b"good"), wire, frame(b"late")])

    assert tunnel.got == [b"good"]
    assert (tunnel.goodbye["code"], tunnel.goodbye["rule"]) == (code, rule)
    assert struct.pack(">H", code) in tunnel.transport.written
    with pytest.raises(OSError, match="ended"):
        tunnel.socket.write(b"more")


@pytest.mark.parametrize(
    ("size", "head"),
    [(0, b"\x82\x00"), (125, b"\x82\x7d"), (126, b"\x82\x7e\x00\x7e"), (65_535, b"\x82\x7e\xff\xff"),
     (65_536, b"\x82\x7f\0\0\0\0\0\x01\0\0")],
)  # fmt: skip
async def test_a_message_is_written_as_one_frame(size: int, head: bytes) -> None:
    tunnel = await _tunnel()
    tunnel.transport.written = b""

    tunnel.socket.write(b"x" * size)

    assert tunnel.transport.written == head + b"x" * size
    await tunnel.end()
