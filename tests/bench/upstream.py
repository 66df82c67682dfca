"""A fast stand-in for a vLLM server over HTTP: peers and the real agent are measured against it.

usage: python -m tests.bench.upstream PORT [--tokens N] [--gap SECONDS]

A streamed request gets N content events, one write each, GAP seconds apart; any other request one answer at once.
"""

import argparse
import asyncio

import uvloop

from tests.bench import answers
from tests.bench.answers import Stream

_HEALTH = b'{"status":"ok"}'
_SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


def _reply(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


class Engine(asyncio.Protocol):
    """One keep-alive connection to the stand-in."""

    def __init__(self, stream: Stream, gap_s: float) -> None:
        self._stream = stream
        self._gap_s = gap_s
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop a stream that nobody reads."""
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body, self._buffer = self._buffer[end + 4 : end + 4 + length], self._buffer[end + 4 + length :]
            self._answer(head.split(b"\r\n", 1)[0], body)

    def _answer(self, line: bytes, body: bytes) -> None:
        if line.startswith(b"get"):
            self._transport.write(_reply(answers.MODELS if b"/v1/models" in line else _HEALTH))
        elif answers.is_streamed(body):
            self._task = asyncio.ensure_future(self._write_stream(has_usage=b"include_usage" in body))
        else:
            self._transport.write(_reply(answers.WHOLE))

    async def _write_stream(self, *, has_usage: bool) -> None:
        self._transport.write(_SSE_HEAD)
        for event in self._stream.events:
            if self._gap_s:
                await asyncio.sleep(self._gap_s)
            self._transport.write(_chunk(event))
        end = self._stream.end_with_usage if has_usage else self._stream.end
        self._transport.write(_chunk(end) + b"0\r\n\r\n")


async def _serve(port: int, stream: Stream, gap_s: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Engine(stream, gap_s), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description="a stand-in for a vLLM server, for load tests")
    parser.add_argument("port", type=int)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--gap", type=float, default=0.01)
    given = parser.parse_args()
    uvloop.run(_serve(given.port, Stream(given.tokens), given.gap))


if __name__ == "__main__":
    main()
