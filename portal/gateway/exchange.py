"""One HTTP request and its answer over raw ASGI: headers, a bounded body, a watch for the customer's leaving."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol
from uuid import UUID

import orjson

from portal.core import ids
from portal.gateway.deadlines import within
from portal.gateway.dialects.base import OPENAI, Wording
from portal.gateway.errors import INVALID_REQUEST, ApiError, Headers

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
MAX_HEADER_BYTES: Final = 32 * 1024
MAX_HEADERS: Final = 100
BODY_TIMEOUT_S: Final = 30.0
WRITE_TIMEOUT_S: Final = 30.0
_MAX_CLIENT_ID: Final = 128
_JSON: Final = (b"content-type", b"application/json")
LINE: Final = "poolhouse.line"  # the extension of the ASGI scope that holds the connection itself

Message = dict[str, Any]
HeaderList = list[tuple[bytes, bytes]]


class CustomerGone(Exception):
    """The customer closed the connection, or does not read what is written to it."""


class Interruptible(Protocol):
    """Something whose reader can be told to stop."""

    def interrupt(self) -> None:
        """Stop the reader now."""


class Departure:
    """The end of a connection, told to whoever waits for it: a task for each request would cost more than its check."""

    __slots__ = ("_has_come", "_listeners")

    def __init__(self) -> None:
        self._has_come = False
        self._listeners: set[Callable[[], None]] = set()

    def tell(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the connection ends, or now where it has."""
        if self._has_come:
            listener()
        else:
            self._listeners.add(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Tell the listener nothing any more."""
        self._listeners.discard(listener)

    def come(self) -> None:
        """Take it that the connection has ended."""
        self._has_come = True
        listeners, self._listeners = self._listeners, set()
        for listener in listeners:
            listener()


class Line(Protocol):
    """The connection that a request came on."""

    departure: Departure

    def put(self, piece: bytes) -> bool: ...  # writes a piece of a body that has begun; False where that has to wait


class Exchange:
    """What admission and relay see of the connection. One object a request."""

    __slots__ = (
        "_interrupts",
        "_line",
        "_promised",
        "_receive",
        "_send",
        "_standing",
        "_started",
        "_watch",
        "client_request_id",
        "cut_by",
        "error_code",
        "has_started",
        "headers",
        "is_gone",
        "method",
        "path",
        "query",
        "request_id",
        "scope",
        "status",
        "waited_s",
        "wording",
    )

    def __init__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Coroutine[Any, Any, Message]],
        send: Callable[[Message], Coroutine[Any, Any, None]],
    ) -> None:
        self._started = time.monotonic()
        self.request_id: UUID = ids.uuid7()
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.client_request_id = _printable(self.headers.get(b"x-request-id", b""))
        self.has_started = False
        self.status = 0
        self.error_code = ""
        self.is_gone = False
        self.cut_by: ApiError | None = None
        self.waited_s = 0.0  # for the customer to read; deadlines of nodes leave it out
        self.wording: Wording = OPENAI
        self._standing: Headers = ()
        self._promised: Callable[[], Headers] = tuple
        self._receive = receive
        self._send = send
        self._line: Line | None = scope.get("extensions", {}).get(LINE)
        self._watch: asyncio.Task[None] | None = None
        self._interrupts: Interruptible | None = None

    @property
    def seconds(self) -> float:
        """How long ago the request came."""
        return time.monotonic() - self._started

    async def read_body(self) -> bytes:
        """Return the body. Raises ApiError 413 as soon as it is known to be too large, CustomerGone."""
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            raise _too_large()
        pieces: list[bytes] = []
        size = 0
        while (message := await self._body_piece())["type"] == "http.request":
            piece = message.get("body", b"")
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise _too_large()
            pieces.append(piece)
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.is_gone = True
        raise CustomerGone

    async def _body_piece(self) -> Message:
        """Return the next piece of a body, all of which comes within its deadline. Raises ApiError 408."""
        try:
            return await within(BODY_TIMEOUT_S - self.seconds, self._receive())
        except TimeoutError as error:
            message = f"The body did not arrive within {BODY_TIMEOUT_S:g} s."
            raise ApiError(408, INVALID_REQUEST, "invalid_value", message) from error

    def watch(self) -> None:
        """From now on, notice when the customer leaves. The body has been read."""
        if self._line is not None:
            self._line.departure.tell(self._leave)
        else:
            self._watch = asyncio.get_running_loop().create_task(self._until_gone())

    def interrupts(self, reader: Interruptible | None) -> None:
        """Name whom a leaving customer interrupts."""
        self._interrupts = reader
        if reader is not None and (self.is_gone or self.cut_by is not None):
            reader.interrupt()

    def cut(self, error: ApiError) -> None:
        """End the answer with this error, though its customer still waits: its relay stops as if he had left."""
        self.cut_by = error
        if self._interrupts is not None:
            self._interrupts.interrupt()

    def stop_watching(self) -> None:
        """End the watch."""
        if self._line is not None:
            self._line.departure.forget(self._leave)
        if self._watch is not None:
            self._watch.cancel()

    def speaks(self, wording: Wording, headers: Headers) -> None:
        """Take the endpoint's words for errors and the headers that all its answers carry."""
        self.wording = wording
        self._standing = headers

    def promise(self, headers: Callable[[], Headers]) -> None:
        """Name headers that whatever is answered from now on carries, in place of those named before.

        They are asked for when the answer begins.
        """
        self._promised = headers

    async def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send the status and headers; our request id and the time it took are always among them."""
        self.has_started = True
        self.status = status
        lines: HeaderList = [
            (b"x-request-id", str(self.request_id).encode()),
            (b"openai-processing-ms", b"%d" % (self.seconds * 1000)),
            *self._standing,
            *self._promised(),
            *headers,
        ]
        await self._write({"type": "http.response.start", "status": status, "headers": lines})

    async def write(self, body: bytes, *, has_more: bool = True) -> None:
        """Send a piece of the body within the slow reader's deadline. Raises CustomerGone."""
        if has_more and body and self._line is not None and not self.is_gone and self._line.put(body):
            return
        await self._write({"type": "http.response.body", "body": body, "more_body": has_more})

    async def answer(self, status: int, value: object, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Send a whole JSON answer."""
        body = value if isinstance(value, bytes) else orjson.dumps(value)
        await self.start(status, [_JSON, (b"content-length", b"%d" % len(body)), *headers])
        await self.write(body, has_more=False)

    async def refuse(self, error: ApiError, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Send an error of the table in the endpoint's words."""
        self.error_code = error.code
        status, body = self.wording.refusal(error)
        await self.answer(status, body, [*error.headers, *headers])

    async def end_in_band(self, error: ApiError) -> None:
        """End an answer that has begun with the error as its last event."""
        self.error_code = error.code
        await self.write(self.wording.error(error), has_more=False)

    async def _write(self, message: Message) -> None:
        if self.is_gone:
            raise CustomerGone
        try:
            await within(WRITE_TIMEOUT_S, self._send(message), waiting=self)
        except (TimeoutError, OSError) as error:
            self.is_gone = True
            raise CustomerGone from error

    async def _until_gone(self) -> None:
        # No deadline: it ends with the request, which has deadlines of its own.
        while (await self._receive())["type"] != "http.disconnect":
            continue
        self._leave()

    def _leave(self) -> None:
        self.is_gone = True
        if self._interrupts is not None:
            self._interrupts.interrupt()


def check_headers(headers: list[tuple[bytes, bytes]]) -> None:
    """Raise ApiError 431 for headers that are too many or too large."""
    if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        raise headers_too_large()


def headers_too_large() -> ApiError:
    """Return 431."""
    message = f"The request's headers are too large: at most {MAX_HEADERS} and {MAX_HEADER_BYTES} bytes."
    return ApiError(431, INVALID_REQUEST, "request_too_large", message)


def _too_large() -> ApiError:
    message = f"The request's body is larger than {MAX_BODY_BYTES} bytes."
    return ApiError(413, INVALID_REQUEST, "request_too_large", message)


def _printable(value: bytes) -> str:
    text = value.decode("latin-1")
    return text if len(text) <= _MAX_CLIENT_ID and text.isascii() and text.isprintable() else ""
