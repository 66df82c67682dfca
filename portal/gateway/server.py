"""uvicorn, taught to let streams end before tunnels close, to refuse endless headers and to tell who leaves."""

import socket
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from portal.core import ids
from portal.gateway.asgi import application
from portal.gateway.errors import INVALID_REQUEST, ApiError
from portal.gateway.exchange import LINE, MAX_HEADER_BYTES, Departure, headers_too_large
from portal.gateway.tunnel import frames
from portal.gateway.tunnel.socket import BoundedWebSocket

_MAX_URL_BYTES: Final = 8_192


class BoundedHttp(HttpToolsProtocol):
    """HTTP/1.1 whose headers are counted while they arrive, before they are kept. It is the `Line` of its requests."""

    _header_bytes = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.departure = Departure()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the requests that run on it."""
        super().connection_lost(exc)
        self.departure.come()

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._header_bytes = 0
        super().on_message_begin()
        self.scope["extensions"] = {LINE: self}  # type: ignore[dict-item]  # ours alone: an object

    def put(self, piece: bytes) -> bool:
        """Write a piece of a body in chunks at once; False where it has to wait, or no such body has begun."""
        cycle = self.cycle
        if not cycle.chunked_encoding or cycle.disconnected or cycle.response_complete or self.flow.write_paused:
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return True

    def on_url(self, url: bytes) -> None:
        """Take a piece of the URL."""
        super().on_url(url)
        self._header_bytes += len(url)
        if self._header_bytes > _MAX_URL_BYTES:
            self._refuse()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES + _MAX_URL_BYTES:
            self._refuse()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP in the shape of every other error."""
        self._answer(b"400 Bad Request", ApiError(400, INVALID_REQUEST, "invalid_value", msg))

    def _refuse(self) -> None:
        self._answer(b"431 Request Header Fields Too Large", headers_too_large())

    def _answer(self, status: bytes, error: ApiError) -> None:
        if self.transport.is_closing():
            return
        body = error.encoded()
        lines = [
            b"HTTP/1.1 " + status,
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"x-request-id: " + str(ids.uuid7()).encode(),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        self.transport.close()


class DrainingServer(uvicorn.Server):
    """A server whose listening sockets close first, then its streams end, and only then its tunnels."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, drain, then close what is left."""
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        await application.drain()
        await super().shutdown(sockets)


def server(**options: Any) -> DrainingServer:
    """Return the server of one gateway process; `options` go to uvicorn."""
    return DrainingServer(
        uvicorn.Config(
            application,
            loop="uvloop",
            http=BoundedHttp,
            ws=BoundedWebSocket,
            ws_per_message_deflate=False,
            ws_max_size=frames.MAX_MESSAGE_BYTES,
            ws_ping_interval=10.0,
            ws_ping_timeout=15.0,
            lifespan="on",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=5,
            **options,
        )
    )
