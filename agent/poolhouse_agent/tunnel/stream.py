"""One request of the gateway: from the front to the engine and back, within the stream's window."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from poolhouse_agent import front
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import AgentError, EngineError, ProtocolError, RequestRefused
from poolhouse_agent.protocol import frames, messages
from poolhouse_agent.protocol.frames import FrameType, RequestHead
from poolhouse_agent.receipts.claims import CANCELED, ENDED, FAILED, Note, Served
from poolhouse_agent.tunnel.batching import MAX_BATCH_BYTES, EventBatcher
from poolhouse_agent.tunnel.terms import USUAL, Terms

log = logging.getLogger(__name__)

_MAX_BODY_BYTES = 32 << 20
_EVENTS = "text/event-stream"

Send = Callable[[bytes], Awaitable[None]]
Route = Callable[[str], Target]


class Window:
    """How many bytes of DATA may still be sent on one stream."""

    def __init__(self) -> None:
        self._left = frames.INITIAL_WINDOW
        self._opened = asyncio.Event()

    def widen(self, more: int) -> None:
        """Allow `more` bytes. Raises ProtocolError when the sum makes no sense."""
        self._left += more
        if self._left > frames.MAX_WINDOW:
            raise ProtocolError(f"a window of {self._left} bytes")
        self._opened.set()

    async def take(self, wanted: int) -> int:
        """Wait until something may be sent; return how much of `wanted`."""
        while self._left <= 0:
            self._opened.clear()
            await self._opened.wait()
        granted = min(wanted, self._left)
        self._left -= granted
        return granted


class Stream:
    """Serves one REQUEST frame and ends with END or FAIL."""

    def __init__(
        self,
        number: int,
        *,
        send: Send,
        route: Route,
        http: aiohttp.ClientSession,
        terms: Terms = USUAL,
        note: Note | None = None,
    ) -> None:
        self.number = number
        self.window = Window()
        self._send = send
        self._route = route
        self._http = http
        self._terms = terms
        self._note = note

    async def serve(self, head: RequestHead, body: bytes) -> None:
        """Answer the request. Raises only what ends the tunnel: CancelledError and connection errors of `send`."""
        served, ending = Served(head, body), CANCELED
        try:
            target = self._route(head.model)
            with target.in_flight():
                call = front.admit(head, body, served_name=target.served_name)
                await self._relay(target, call, served)
        except AgentError as error:
            ending = FAILED
            detail = "" if isinstance(error, RequestRefused) else error.detail  # the asker wrote it
            log.warning("request.failed", extra={"attempt": head.attempt, "code": error.code, "detail": detail})
            await self.fail(error.code, error.detail)
        else:
            await self._send(frames.encode_json(FrameType.END, self.number, {}))
            ending = ENDED
        finally:
            claim = served.claim(ending)
            if claim is not None and self._note is not None:
                self._note(claim)

    async def fail(self, code: str, detail: str = "") -> None:
        """Send FAIL."""
        body = {"code": code, "message": detail[:300]}
        await self._send(frames.encode_json(FrameType.FAIL, self.number, body))

    async def _relay(self, target: Target, call: front.Call, served: Served) -> None:
        response = await _ask(self._http, target, call)
        try:
            head = messages.head_body(response.status, response.headers)
            content_type = response.headers.get("content-type", "")
            await self._send(frames.encode_json(FrameType.HEAD, self.number, head))
            served.answered = True
            is_stream = content_type.startswith(_EVENTS)
            body = _event_batches(response.content, self._terms) if is_stream else _pieces(response.content)
            async for batch in body:
                await self._send_within_window(batch, served)
        finally:
            response.close()  # the engine stops generating when its caller is gone

    async def _send_within_window(self, batch: bytes, served: Served) -> None:
        sent = 0
        while sent < len(batch):
            granted = await self.window.take(len(batch) - sent)
            piece = batch[sent : sent + granted]
            served.add(piece)
            await self._send(frames.encode(FrameType.DATA, self.number, piece))
            sent += granted


async def _ask(http: aiohttp.ClientSession, target: Target, call: front.Call) -> aiohttp.ClientResponse:
    headers = {"content-type": "application/json", **target.headers}
    url = target.base_url + call.path
    try:
        return await http.request(call.method, url, data=call.body, headers=headers, allow_redirects=False)
    except aiohttp.ClientConnectorError:
        raise EngineError("engine_unreachable", "the engine does not listen") from None
    except TimeoutError:
        raise EngineError("engine_timeout", "the engine did not answer in time") from None
    except aiohttp.ServerDisconnectedError:
        raise EngineError("engine_died", "the engine closed the connection before it answered") from None
    except (aiohttp.ClientOSError, ConnectionError):
        raise EngineError("engine_died", "the connection to the engine broke") from None
    except (aiohttp.ClientError, ValueError) as error:
        raise EngineError("engine_protocol", type(error).__name__) from None


async def _read(content: aiohttp.StreamReader, *, until: float | None = None) -> bytes | None:
    """Return what the engine sent, empty at the end; None where nothing came `until` then. Raises EngineError."""
    try:
        async with asyncio.timeout_at(until) as waiting:
            return await content.readany()
    except TimeoutError:
        if waiting.expired():
            return None
        raise EngineError("engine_timeout", "the engine fell silent") from None
    except aiohttp.ClientPayloadError:
        raise EngineError("engine_died", "the engine's answer broke off") from None
    except (aiohttp.ClientOSError, ConnectionError):
        raise EngineError("engine_died", "the connection to the engine broke") from None
    except (aiohttp.ClientError, ValueError) as error:
        raise EngineError("engine_protocol", type(error).__name__) from None


async def _pieces(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Pass a plain body through in pieces of bounded size. Raises EngineError."""
    total = 0
    while chunk := await _read(content):
        total += len(chunk)
        if total > _MAX_BODY_BYTES:
            raise EngineError("engine_protocol", f"a body of more than {_MAX_BODY_BYTES} bytes")
        for start in range(0, len(chunk), MAX_BATCH_BYTES):
            yield chunk[start : start + MAX_BATCH_BYTES]


async def _event_batches(content: aiohttp.StreamReader, terms: Terms) -> AsyncIterator[bytes]:
    """Yield batches of whole events; what waits goes after `batch_wait_s` at the latest."""
    batcher, loop = EventBatcher(terms.batch_events), asyncio.get_running_loop()
    due_at: float | None = None
    while (chunk := await _read(content, until=due_at)) != b"":
        if chunk:
            batcher.feed(chunk)
        is_due = due_at is not None and loop.time() >= due_at
        while batcher.is_full or (is_due and batcher.has_events):
            yield batcher.take()
        if not batcher.has_events:
            due_at = None
        elif due_at is None or is_due:
            due_at = loop.time() + terms.batch_wait_s
    if rest := batcher.rest():
        yield rest
