"""Many streams at the pace of real tokens: how much later the first token comes than the node sent it.

The stand-in node sends the first token when it is asked, so that all the time until it arrives is the gateway's.
"""

import asyncio
import json
import statistics
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import uvloop

from tests.bench.wrk import Request


@dataclass(frozen=True)
class Paced:
    """What the streams saw."""

    streams: int
    failed: int
    first_token_p50_ms: float
    first_token_p99_ms: float


class _Client(asyncio.Protocol):
    """One streamed request on a connection of its own."""

    def __init__(self, head: bytes) -> None:
        self.first_s: float | None = None
        self.is_whole = False
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = head
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self._transport = transport
        self._asked_at = time.perf_counter()
        transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        """Note the first token and the end."""
        if self.first_s is None and b'"content":"' in data:
            self.first_s = time.perf_counter() - self._asked_at
        self._tail = (self._tail + data)[-32:]
        if b"[DONE]" in self._tail:
            self.is_whole = True
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take it that the stream is over."""
        if not self.is_over.done():
            self.is_over.set_result(None)


def run(url: str, request: Request, *, streams: int, over_s: float) -> Paced:
    """Begin so many streams evenly over `over_s` seconds and wait for all of them."""
    return uvloop.run(_run(url, _head(url, request), streams, over_s))


async def _run(url: str, head: bytes, streams: int, over_s: float) -> Paced:
    loop, where = asyncio.get_running_loop(), urlsplit(url)
    clients: list[_Client] = []
    began = loop.time()
    for number in range(streams):
        await asyncio.sleep(began + number * over_s / streams - loop.time())
        _, client = await loop.create_connection(lambda: _Client(head), where.hostname, where.port)
        clients.append(client)
    await asyncio.wait([client.is_over for client in clients], timeout=60.0 + over_s)
    return summary(
        [client.first_s for client in clients if client.first_s is not None],
        streams=streams,
        whole=sum(client.is_whole for client in clients),
    )


def summary(first_s: list[float], *, streams: int, whole: int) -> Paced:
    """Return the percentiles of the first tokens' times."""
    if len(first_s) < 2:
        return Paced(streams, streams - whole, 0.0, 0.0)
    cuts = statistics.quantiles(first_s, n=100, method="inclusive")
    return Paced(streams, streams - whole, cuts[49] * 1000, cuts[98] * 1000)


def _head(url: str, request: Request) -> bytes:
    body = json.dumps(request.body()).encode()
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        f"host: {urlsplit(url).netloc}",
        f"authorization: Bearer {request.key}",
        "content-type: application/json",
        f"content-length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
