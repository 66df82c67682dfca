"""A stand-in for a node: speaks the tunnel protocol and answers as the HTTP stand-in does, for load tests only.

usage: python -m tests.bench.tunnel_node PORT --tokens-file FILE [--tokens N] [--gap SECONDS] [--batch EVENTS]

FILE holds session tokens, one a line: one tunnel each. With `--batch 4` events travel as the agent sends them by
default, the first alone, then four to a message; without, one to a message. It writes its own WebSocket frames, with
a mask of zeros, so that what is measured is the gateway.
"""

import argparse
import asyncio
import base64
import json
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from portal.gateway.tunnel import frames
from tests.bench import answers
from tests.bench.answers import Stream

MODEL = "acme/chat-8b"
_PATH = "/agent/v1/tunnel"
_HELLO = {
    "protocol": 1,
    "agent_version": "bench",
    "deployments": [{"model": MODEL, "state": "ready", "max_concurrency": 4096}],
}
_HEAD_WHOLE = b'{"status":200,"content_type":"application/json"}'
_HEAD_STREAM = b'{"status":200,"content_type":"text/event-stream"}'
_MASKED = 0x80
_SHORT, _LONG = 125, 65_535
_AT_ONCE = 32
_BINARY, _CLOSE, _PING = 0x2, 0x8, 0x9


def client_message(payload: bytes, opcode: int = _BINARY) -> bytes:
    """Return one WebSocket message of a client; a mask of zeros leaves the payload as it is."""
    size = len(payload)
    if size <= _SHORT:
        head = struct.pack(">BB", 0x80 | opcode, _MASKED | size)
    elif size <= _LONG:
        head = struct.pack(">BBH", 0x80 | opcode, _MASKED | 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, _MASKED | 127, size)
    return head + b"\0\0\0\0" + payload


class MessageReader:
    """Cuts what a server sends into messages; servers neither mask nor, here, fragment."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield opcode and payload of each whole message."""
        self._buffer += data
        while len(self._buffer) >= 2:
            size, start = self._buffer[1] & 0x7F, 2
            if size > _SHORT:
                start = 4 if size == _SHORT + 1 else 10
                if len(self._buffer) < start:
                    return
                size = int.from_bytes(self._buffer[2:start], "big")
            if len(self._buffer) < start + size:
                return
            message = (self._buffer[0] & 0x0F, self._buffer[start : start + size])
            self._buffer = self._buffer[start + size :]
            yield message


@dataclass(frozen=True)
class Manner:
    """How this node answers: its stream, the pause between tokens (and before the first), events a message."""

    stream: Stream
    gap_s: float
    batch: int
    is_prompt: bool = False

    def pieces(self) -> list[tuple[int, bytes]]:
        """Return the stream as it is sent: after how many tokens' time, and which bytes."""
        events = self.stream.events
        sizes = [1, *[self.batch] * len(events)]
        pieces, at = [], 0
        for size in sizes:
            taken = events[at : at + size]
            if not taken:
                return pieces
            pieces.append((len(taken), b"".join(taken)))
            at += size
        return pieces


class Node(asyncio.Protocol):
    """One tunnel."""

    def __init__(self, token: str, manner: Manner) -> None:
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._token = token
        self._manner = manner
        self._pieces = manner.pieces()
        self._reader = MessageReader()
        self._handshake: bytes | None = b""
        self._streams: dict[int, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the WebSocket."""
        self._transport = transport
        lines = [
            f"GET {_PATH} HTTP/1.1",
            "host: gateway",
            "upgrade: websocket",
            "connection: upgrade",
            "sec-websocket-version: 13",
            f"sec-websocket-key: {base64.b64encode(os.urandom(16)).decode()}",
            f"authorization: Bearer {self._token}",
        ]
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def connection_lost(self, exc: Exception | None) -> None:
        """Say that the tunnel is gone."""
        if not self.is_lost.done():
            self.is_lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Take the handshake's answer, then messages."""
        if self._handshake is not None:
            self._handshake += data
            head, separator, data = self._handshake.partition(b"\r\n\r\n")
            if not separator:
                return
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                raise ConnectionRefusedError(head.split(b"\r\n", 1)[0].decode())
            self._handshake = None
            self.is_open.set_result(None)
            self._transport.write(client_message(frames.pack(frames.HELLO, 0, json.dumps(_HELLO).encode())))
        for opcode, payload in self._reader.feed(data):
            if opcode == _BINARY:
                self._take(*frames.unpack(payload))
            elif opcode == _PING:
                self._transport.write(client_message(payload, 0xA))
            elif opcode == _CLOSE:
                self._transport.close()

    def _take(self, kind: int, stream: int, payload: bytes) -> None:
        if kind == frames.REQUEST:
            if answers.is_streamed(payload):
                self._send(stream, (frames.HEAD, _HEAD_STREAM))
                self._later(stream, 0)
            else:
                self._send(stream, (frames.HEAD, _HEAD_WHOLE), (frames.DATA, answers.WHOLE), (frames.END, b"{}"))
        elif kind == frames.CANCEL and (timer := self._streams.pop(stream, None)) is not None:
            timer.cancel()
            self._send(stream, (frames.FAIL, b'{"code":"canceled","message":""}'))

    def _later(self, stream: int, number: int) -> None:
        count = 0 if self._manner.is_prompt and not number else self._pieces[number][0]
        loop = asyncio.get_running_loop()
        self._streams[stream] = loop.call_later(count * self._manner.gap_s, self._write, stream, number)

    def _write(self, stream: int, number: int) -> None:
        piece = (frames.DATA, self._pieces[number][1])
        if number + 1 < len(self._pieces):
            self._send(stream, piece)
            self._later(stream, number + 1)
            return
        del self._streams[stream]
        self._send(stream, piece, (frames.DATA, self._manner.stream.end_with_usage), (frames.END, b"{}"))

    def _send(self, stream: int, *messages: tuple[int, bytes]) -> None:
        packed = (client_message(frames.pack(kind, stream, payload)) for kind, payload in messages)
        self._transport.write(b"".join(packed))


async def _serve(port: int, tokens: Sequence[str], manner: Manner) -> None:
    loop = asyncio.get_running_loop()
    nodes: list[Node] = []
    for number, token in enumerate(tokens):
        _, node = await loop.create_connection(lambda token=token: Node(token, manner), "127.0.0.1", port)
        nodes.append(node)
        if number >= _AT_ONCE:  # a fleet does not come back in the same second either
            await nodes[number - _AT_ONCE].is_open
    await asyncio.wait([node.is_lost for node in nodes], return_when=asyncio.FIRST_COMPLETED)


def main() -> None:
    """Serve until a tunnel is lost."""
    parser = argparse.ArgumentParser(description="a stand-in for a node, for load tests")
    parser.add_argument("port", type=int)
    parser.add_argument("--tokens-file", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--gap", type=float, default=0.01)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", action="store_true", help="send the first token at once")
    given = parser.parse_args()
    manner = Manner(Stream(given.tokens, has_counts=True), given.gap, given.batch, given.prompt)
    uvloop.run(_serve(given.port, given.tokens_file.read_text(encoding="utf-8").split(), manner))


if __name__ == "__main__":
    main()
