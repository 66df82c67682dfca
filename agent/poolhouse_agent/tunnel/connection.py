"""One WebSocket to a gateway: reads its frames, runs a task per request, reports changes of the deployments."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from enum import StrEnum
from typing import Any, Protocol

import aiohttp

from poolhouse_agent.bell import Bell
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import ProtocolError, RequestRefused
from poolhouse_agent.protocol import frames, messages
from poolhouse_agent.protocol.frames import Frame, FrameType, RequestHead
from poolhouse_agent.protocol.messages import DeploymentReport
from poolhouse_agent.receipts.claims import Note
from poolhouse_agent.tunnel.bodies import Bodies
from poolhouse_agent.tunnel.stream import Stream
from poolhouse_agent.tunnel.terms import USUAL, Terms

log = logging.getLogger(__name__)

MAX_STREAMS = 1024
_CANCEL_S = 1.0


class Serving(Protocol):
    """What the tunnel needs of the deployments on this node."""

    bell: Bell

    def route(self, model: str) -> Target:
        """Return where requests for the model go. Raises RequestRefused."""
        ...

    def reports(self) -> Sequence[DeploymentReport]:
        """What to tell gateway and portal about each deployment."""
        ...


class Ending(StrEnum):
    """Why a connection ended."""

    LOST = "lost"
    GOAWAY = "goaway"
    RESTART = "restart"
    SESSION_INVALID = "session_invalid"
    SUPERSEDED = "superseded"
    PROTOCOL = "protocol"


CLOSE_PROTOCOL = 4400
_ENDINGS = {4401: Ending.SESSION_INVALID, 4409: Ending.SUPERSEDED, 4400: Ending.PROTOCOL, 1012: Ending.RESTART}


class Connection:
    """Serves one WebSocket until it ends. `leaving` is set once the gateway sends no more requests on it."""

    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        *,
        serving: Serving,
        http: aiohttp.ClientSession,
        terms: Terms = USUAL,
        note: Note | None = None,
    ) -> None:
        self._socket = socket
        self._note = note
        self._serving = serving
        self._http = http
        self._terms = terms
        self._streams: dict[int, tuple[Stream, asyncio.Task[None]]] = {}
        self.leaving = asyncio.Event()
        self._bodies = Bodies()
        self._newest = 0
        self._chores: set[asyncio.Task[None]] = set()

    async def serve(self) -> Ending:
        """Say HELLO and answer requests until the socket closes; return why it ended."""
        seen = self._serving.bell.count
        await self._send(frames.encode_json(FrameType.HELLO, 0, messages.hello_body(self._serving.reports())))
        self._chore(self._report_changes(seen))
        try:
            return await self._read()
        except ProtocolError as error:
            log.warning("tunnel.protocol_error", extra={"code": error.code, "detail": error.detail})
            await self._socket.close(code=CLOSE_PROTOCOL, message=error.detail.encode()[:100])
            return Ending.PROTOCOL
        finally:
            await self._abandon()

    async def _read(self) -> Ending:
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.ERROR:
                return Ending.LOST  # the line broke, or the other side answers no ping
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise ProtocolError(f"a message of type {message.type.name}")
            self._handle(frames.decode(message.data))
        if self.leaving.is_set():
            return Ending.GOAWAY
        return _ENDINGS.get(self._socket.close_code or 0, Ending.LOST)

    def _handle(self, frame: Frame) -> None:
        match frame.type:
            case FrameType.REQUEST:
                self._begin(frame)
            case FrameType.BODY:
                self._find(frame)
                if whole := self._bodies.add(frame.stream, frame.payload):
                    self._start(frame.stream, *whole)
            case FrameType.GOAWAY:
                self.leaving.set()
                self._leave_when_idle()
            case FrameType.CANCEL:
                if self._find(frame):
                    self._chore(self._cancel(frame.stream))
                elif self._bodies.drop(frame.stream):
                    self._refuse(frame.stream, "canceled")
            case FrameType.WINDOW:
                more = frames.read_window(frame.payload)
                if found := self._find(frame):
                    found.window.widen(more)

    def _find(self, frame: Frame) -> Stream | None:
        """Return the stream; None where it has just ended, which its frame could not know. Raises ProtocolError."""
        if frame.stream > self._newest:
            raise ProtocolError(f"{frame.type.name} for stream {frame.stream}, which was never opened")
        found = self._streams.get(frame.stream)
        return found[0] if found else None

    def _begin(self, frame: Frame) -> None:
        if frame.stream <= self._newest:
            raise ProtocolError(f"stream {frame.stream} opened twice or out of order")
        head, piece = frames.read_request(frame.payload)
        self._newest = frame.stream
        if self.leaving.is_set():
            self._refuse(frame.stream, "draining")
            return
        try:
            body = self._bodies.begin(frame.stream, head, piece)
        except RequestRefused as error:
            self._refuse(frame.stream, error.code)
            return
        if body is not None:
            self._start(frame.stream, head, body)

    def _start(self, number: int, head: RequestHead, body: bytes) -> None:
        if len(self._streams) >= MAX_STREAMS:
            self._refuse(number, "too_many_streams")
            return
        stream = self._stream(number)
        task = asyncio.create_task(stream.serve(head, body))
        self._streams[number] = (stream, task)
        task.add_done_callback(lambda done: self._ended(stream, done))

    def _stream(self, number: int) -> Stream:
        return Stream(
            number,
            send=self._send,
            route=self._serving.route,
            http=self._http,
            terms=self._terms,
            note=self._note,
        )

    def _refuse(self, number: int, code: str) -> None:
        """Answer a request that never began, and leave if it was the last that kept us."""
        self._chore(self._stream(number).fail(code))
        self._leave_when_idle()

    def _ended(self, stream: Stream, task: asyncio.Task[None]) -> None:
        self._streams.pop(stream.number, None)
        if task.cancelled():
            self._leave_when_idle()
            return
        error = task.exception()
        if error is not None and not isinstance(error, ConnectionError):
            log.error("request.crashed", exc_info=error)
            self._chore(stream.fail("engine_protocol", type(error).__name__))
        self._leave_when_idle()

    async def _cancel(self, number: int) -> None:
        found = self._streams.get(number)
        if found is None:
            return
        stream, task = found
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_S)
        if task.cancelled() or not task.done():
            await stream.fail("canceled")

    def _leave_when_idle(self) -> None:
        if self.leaving.is_set() and not self._streams and not self._bodies and not self._socket.closed:
            self._chore(self._close())

    async def _close(self) -> None:
        await self._socket.close()

    async def _report_changes(self, seen: int) -> None:
        while True:
            seen = await self._serving.bell.after(seen)
            await self._send(frames.encode_json(FrameType.STATUS, 0, messages.status_body(self._serving.reports())))

    async def _send(self, message: bytes) -> None:
        await self._socket.send_bytes(message)

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chore_ended)

    def _chore_ended(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, ConnectionError):
            log.error("tunnel.chore_crashed", exc_info=error)

    async def _abandon(self) -> None:
        tasks = [task for _, task in self._streams.values()] + list(self._chores)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if not self._socket.closed:
            await self._socket.close()
