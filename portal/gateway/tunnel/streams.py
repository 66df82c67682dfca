"""Many requests over one connection: streams with bounded buffers, and the multiplexer that feeds them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable
from typing import Final, Protocol

from portal.gateway.tunnel import frames

Frame = tuple[int, bytes]

_CREDIT_STEP: Final = frames.WINDOW_BYTES // 2
_MAX_CLOSING: Final = 4_096
# A window of bytes in honest frames (whole events) is some 1,800 of them; a queue of crumbs would cost far more memory.
_MAX_QUEUED: Final = 8_192
_MAX_CONTROL: Final = 3
# What a reader takes at once of that which waits: the busier the process is, the fewer pieces it carries.
_GATHERED_BYTES: Final = 16_384
# What a frame of a canceled stream counts as beside its bytes, and how much more than its window may still come.
_FRAME_BYTES: Final = 16
_DRAIN_SLACK: Final = 65_536
_WINDOW_RULE: Final = "tunnel_window"
_FROM_NODE: Final = frozenset({frames.HEAD, frames.DATA, frames.END, frames.FAIL})
_LAST: Final = frozenset({frames.END, frames.FAIL})


class TunnelLost(Exception):
    """The connection ended under the stream, or could not be used at all."""


class NodeSilent(Exception):
    """No frame came within the deadline."""


class Interrupted(Exception):
    """The reader was told to stop: its customer has gone."""


class Send(Protocol):
    """Writes one message to the connection within a deadline. Raises TunnelLost."""

    def __call__(self, message: bytes, /) -> Awaitable[None]: ...


class NodeStream:
    """One request as its reader sees it: at most one window of bytes waits in it."""

    __slots__ = (
        "_alarm",
        "_consumed",
        "_control",
        "_deadline",
        "_frames",
        "_is_interrupted",
        "_is_lost",
        "_mux",
        "_rings_at",
        "_waiter",
        "_window",
        "gathered",
        "has_ended",
        "id",
    )

    def __init__(self, mux: "Mux", stream_id: int) -> None:
        self.id = stream_id
        self.has_ended = False
        self.gathered = 1
        self._mux = mux
        self._frames: deque[Frame] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._deadline = self._rings_at = 0.0
        self._window = frames.WINDOW_BYTES
        self._consumed = 0
        self._control = 0
        self._is_interrupted = False
        self._is_lost = False

    def feed(self, kind: int, payload: bytes) -> None:
        """Take one frame from the connection. Raises ProtocolError when the node ignores the window."""
        if kind == frames.DATA:
            self._window -= len(payload)
            # Bytes and frames are bounded here because nothing later can: a reader who waits does not look.
            if self._window < 0 or not payload or len(self._frames) >= _MAX_QUEUED:
                raise frames.ProtocolError(f"stream {self.id} sent more than its window", rule=_WINDOW_RULE)
        else:
            self._feed_control(kind, payload)
        self._frames.append((kind, payload))
        self._wake()

    def _feed_control(self, kind: int, payload: bytes) -> None:
        self._control += 1
        if self._control > _MAX_CONTROL or len(payload) > frames.MAX_JSON_BYTES:
            raise frames.ProtocolError(f"stream {self.id}: {kind:#04x} of {len(payload)} bytes, {self._control} heads")
        if kind in _LAST:
            self.has_ended = True

    def lose(self) -> None:
        """Note that the connection is gone."""
        self._is_lost = True
        self._wake()

    def interrupt(self) -> None:
        """Make the reader's `next` raise Interrupted, now and later."""
        self._is_interrupted = True
        self._wake()

    async def next(self, timeout_s: float) -> Frame:
        """Return the next frame and grant the window its bytes took; body that waits already comes as one frame.

        `gathered` is of how many frames it came. Raises NodeSilent, TunnelLost, Interrupted.
        """
        if not self._frames or self._is_interrupted:
            await self._arrival(timeout_s)
        frame = self._frames.popleft()
        self.gathered = 1
        if frame[0] == frames.DATA:
            if self._frames and self._frames[0][0] == frames.DATA:
                frame = self._gather(frame[1])
            self._consumed += len(frame[1])
            if self._consumed >= _CREDIT_STEP:
                credit, self._consumed = self._consumed, 0
                await self.grant(credit)
        return frame

    def _gather(self, first: bytes) -> Frame:
        pieces, size = [first], len(first)
        while size < _GATHERED_BYTES and self._frames and self._frames[0][0] == frames.DATA:
            piece = self._frames.popleft()[1]
            pieces.append(piece)
            size += len(piece)
        self.gathered = len(pieces)
        return frames.DATA, b"".join(pieces)

    async def next_uncredited(self, timeout_s: float) -> Frame:
        """Return the next frame; granting its bytes back is the caller's part. Raises as `next` does."""
        if not self._frames or self._is_interrupted:
            await self._arrival(timeout_s)
        return self._frames.popleft()

    async def _arrival(self, timeout_s: float) -> None:
        """Return once a frame waits. Raises NodeSilent, TunnelLost, Interrupted."""
        if not self._is_interrupted and not self._is_lost:
            await self._wait(timeout_s)
        if self._is_interrupted:
            raise Interrupted
        if not self._frames:
            raise TunnelLost("the tunnel closed while the request ran")

    async def send_body(self, pieces: Iterable[bytes]) -> None:
        """Send the rest of a request's body; an answer that ends early needs no more of it.

        Raises TunnelLost, Interrupted.
        """
        for piece in pieces:
            if self._is_interrupted:
                raise Interrupted
            if self._is_lost:
                raise TunnelLost("the tunnel closed while the request was sent")
            if self.has_ended:
                return
            await self._mux.send(frames.pack(frames.BODY, self.id, piece))

    async def grant(self, credit: int) -> None:
        """Let the node send `credit` more bytes."""
        self._window += credit
        if not self.has_ended and not self._is_lost:
            await self._mux.send(frames.pack_window(self.id, credit))

    async def close(self) -> None:
        """Leave the stream; the node is told to cancel when it has not ended by itself."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._mux.forget(self, self._window) and not self._is_lost:
            await self._mux.send(frames.pack(frames.CANCEL, self.id))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        self._deadline = loop.time() + timeout_s
        if self._alarm is None or self._rings_at > self._deadline:
            self._set_alarm(loop)
        try:
            await waiter
        finally:
            self._waiter = None

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        # One timer for many waits: a frame moves the deadline and leaves the timer, which looks again when it rings.
        if self._alarm is not None:
            self._alarm.cancel()
        self._rings_at = self._deadline
        self._alarm = loop.call_at(self._rings_at, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm = None
        if self._waiter is None or self._waiter.done():
            return
        if loop.time() < self._deadline:
            self._set_alarm(loop)
        else:
            self._waiter.set_exception(NodeSilent())


class Mux:
    """The streams of one connection. Whoever reads the connection calls `receive`; `send` writes to it."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.is_lost = False
        self._streams: dict[int, NodeStream] = {}
        self._closing: dict[int, int] = {}
        self._last_id = 0

    @property
    def open_streams(self) -> int:
        """How many streams are being read."""
        return len(self._streams)

    async def open(self, payload: bytes) -> NodeStream:
        """Send a REQUEST and return its stream. Raises TunnelLost."""
        if self.is_lost:
            raise TunnelLost("the tunnel is closed")
        self._last_id += 1
        stream = self._streams[self._last_id] = NodeStream(self, self._last_id)
        is_sent = False
        try:
            await self.send(frames.pack(frames.REQUEST, stream.id, payload))
            is_sent = True
        finally:  # a cancellation, too, must leave no stream behind
            if not is_sent:
                self._streams.pop(stream.id, None)
        return stream

    def receive(self, kind: int, stream_id: int, payload: bytes) -> None:
        """Hand one frame to its stream. Raises ProtocolError."""
        stream = self._streams.get(stream_id)
        if stream is not None and kind in _FROM_NODE and not stream.has_ended:
            stream.feed(kind, payload)
            return
        if stream is not None or kind not in _FROM_NODE or not 0 < stream_id <= self._last_id:
            raise frames.ProtocolError(f"frame {kind:#04x} does not belong on stream {stream_id}")
        self._drain(kind, stream_id, payload)

    def forget(self, stream: NodeStream, window: int) -> bool:
        """Stop feeding the stream; return whether its node still has to be told."""
        if self._streams.pop(stream.id, None) is None or stream.has_ended or self.is_lost:
            return False
        if len(self._closing) >= _MAX_CLOSING:  # a node that never says that it has stopped is not waited for
            del self._closing[next(iter(self._closing))]
        self._closing[stream.id] = window
        return True

    def lose(self) -> None:
        """Fail all streams: the connection is gone."""
        self.is_lost = True
        for stream in self._streams.values():
            stream.lose()
        self._streams.clear()
        self._closing.clear()

    def _drain(self, kind: int, stream_id: int, payload: bytes) -> None:
        window = self._closing.get(stream_id)
        if window is None:
            raise frames.ProtocolError(f"stream {stream_id} has ended")
        if kind in _LAST:
            del self._closing[stream_id]
            return
        # Crumbs count as more than their bytes: a canceled stream cannot go on for ever without filling anything.
        left = self._closing[stream_id] = window - len(payload) - _FRAME_BYTES
        if left < -_DRAIN_SLACK:
            raise frames.ProtocolError("canceled streams go on sending", rule=_WINDOW_RULE)
