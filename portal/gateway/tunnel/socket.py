"""The tunnel's WebSocket: messages go straight to their stream, and a hostile agent costs nobody else anything."""

from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.speedups import apply_mask

from portal.gateway.tunnel import frames

TUNNEL: Final = "poolhouse.tunnel"  # the extension of the ASGI scope that holds the socket itself

# A read brings up to 256 KB: of the smallest messages that would be 20,000, taken at one go while everybody waits.
_MESSAGES_A_TURN: Final = 256
_MAX_FRAGMENTS: Final = 64
_MAX_CONTROL: Final = 100
_CONTROL_WINDOW_S: Final = 10.0
_MAX_AFTER_CLOSE_BYTES: Final = 65_536
_FAREWELL_S: Final = 1.0
_TOO_LARGE: Final = 1009
_MAX_REASON: Final = 100
_WHOLE_BINARY: Final = 0x82  # the first byte of a frame that is a message by itself
_MASKED: Final = 0x80

Sink = Callable[[bytes], None]  # takes one message; raises frames.ProtocolError


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket for the handshake, control frames, fragments and closing; whole messages are cut out here.

    Nearly all that comes is a whole binary message. Parsed in general, queued and fetched by a task it would cost ten
    times as much. Pings, fragments, work at one go and what comes after a close are bounded: a broken bound ends the
    connection, and the application hears of it as a `websocket.disconnect` that names the `rule`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sink: Sink | None = None
        self._buffer = bytearray()
        self._wanted = 0
        self._control = 0
        self._control_since = 0.0
        self._after_close_bytes = 0
        self._is_deaf = False

    # What the application calls.

    def deliver(self, sink: Sink) -> None:
        """Hand each message to `sink` as it comes, those that wait already first."""
        waiting = []
        while not self.queue.empty():
            waiting.append(self.queue.get_nowait())
        self._sink = sink
        for message in waiting:
            if message["type"] == "websocket.receive":
                self._take(message["bytes"] or b"")
            else:
                self.queue.put_nowait(message)
        self._go_on()

    @property
    def is_full(self) -> bool:
        """Whether the other side has not taken yet what was written."""
        return not self.writable.is_set()

    async def drain(self) -> None:
        """Wait until more may be written, or never will be."""
        await self.writable.wait()

    def write(self, message: bytes) -> None:
        """Write one message. Raises OSError where the connection has ended."""
        if self.disconnected or self.close_sent:
            raise ConnectionResetError("the tunnel's connection has ended")
        size = len(message)
        if size < 126:  # noqa: PLR2004  RFC 6455, section 5.2
            head = bytes((_WHOLE_BINARY, size))
        elif size < 65_536:  # noqa: PLR2004  as above
            head = b"\x82\x7e" + size.to_bytes(2, "big")
        else:
            head = b"\x82\x7f" + size.to_bytes(8, "big")
        self.transport.write(head + message)

    async def close(self, code: int, reason: str) -> None:
        """Say goodbye, unless that was said already."""
        if not (self.disconnected or self.close_sent):
            await self.send({"type": "websocket.close", "code": code, "reason": reason})

    # What uvicorn calls.

    def handle_connect(self, event: Request) -> None:
        """Begin the handshake; the application finds the socket in its scope."""
        super().handle_connect(event)
        if self.response.status_code == 101:  # noqa: PLR2004  an HTTP status
            self.scope["extensions"][TUNNEL] = self  # type: ignore[assignment]  # ours alone: an object

    def data_received(self, data: bytes) -> None:
        """Take what was read."""
        if self._is_deaf:
            return
        if not self.handshake_initiated:
            super().data_received(data)
            return
        if self.close_sent:
            self._after_close_bytes += len(data)
            if self._after_close_bytes > _MAX_AFTER_CLOSE_BYTES:
                self._stop_listening()
                return
        self._buffer += data
        if len(self._buffer) >= self._wanted and not self.read_paused:
            self._cut()

    async def receive(self) -> Any:
        """Return the next message for the application; reading goes on once nothing waits."""
        message = await self.queue.get()
        if self.queue.empty():
            self._go_on()
        return message

    def handle_ping(self) -> None:
        """Answer a ping, within reason."""
        if self._may_control():
            super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        """Take a pong, within reason."""
        if self._may_control():
            super().handle_pong(event)

    def handle_cont(self, event: Frame) -> None:
        """Take a fragment, within reason: empty ones count towards no size."""
        if len(self.frames) >= _MAX_FRAGMENTS:
            self._end(f"a message in more than {_MAX_FRAGMENTS} fragments", "tunnel_message_too_large")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Take a message that came in fragments, or as text."""
        pieces, self.frames = self.frames, []
        if self.curr_msg_data_type == "text":
            self._end("messages are binary", "tunnel_protocol")
        else:
            self._take(b"".join(pieces))

    def handle_parser_exception(self) -> None:
        """End a connection whose bytes are no WebSocket, or whose message is too large."""
        sent = self.conn.close_sent
        code = sent.code if sent is not None else frames.CLOSE_PROTOCOL_ERROR
        rule = "tunnel_message_too_large" if code == _TOO_LARGE else "tunnel_protocol"
        self._say_farewell(code, sent.reason if sent is not None else "", rule)

    # How messages are cut out.

    def _cut(self) -> None:
        """Take whole frames from the buffer until it has none, somebody else should have a turn, or we are closing."""
        buffer, at, left = self._buffer, 0, _MESSAGES_A_TURN
        while True:
            start, end = _frame_at(buffer, at)
            if end > len(buffer):
                self._wanted = end - at
                break
            if left == 0 or self.read_paused or self._is_deaf:
                self._wanted = 0
                self._pause()
                break
            if start and buffer[at] == _WHOLE_BINARY and not self.frames:
                self._take(apply_mask(buffer[start:end], buffer[start - 4 : start]))
            else:
                super().data_received(bytes(buffer[at:end]))
                end = len(buffer) if self.transport.is_closing() else end
            at = end
            left -= 1
        del buffer[:at]

    def _take(self, message: bytes) -> None:
        if self.close_sent:
            return
        if self._sink is None:
            self.queue.put_nowait({"type": "websocket.receive", "bytes": message})
            self._pause()
            return
        try:
            self._sink(message)
        except frames.ProtocolError as error:
            self._end(str(error), error.rule)

    def _pause(self) -> None:
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        if self._sink is not None and not self._is_deaf:
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Read on, what waits in the buffer first."""
        if not self.read_paused or self._is_deaf or self.disconnected:
            return
        self.read_paused = False
        self._cut()
        if not self.read_paused:
            self.transport.resume_reading()

    def _may_control(self) -> bool:
        self._control += 1
        if self._control <= _MAX_CONTROL:
            return True
        now = self.loop.time()
        if now - self._control_since > _CONTROL_WINDOW_S:
            self._control, self._control_since = 1, now
            return True
        self._end("too many pings", "tunnel_flood")
        return False

    def _end(self, reason: str, rule: str) -> None:
        if self.close_sent:
            return
        self.conn.fail(frames.CLOSE_PROTOCOL_ERROR, reason[:_MAX_REASON])
        self._say_farewell(frames.CLOSE_PROTOCOL_ERROR, reason, rule)

    def _say_farewell(self, code: int, reason: str, rule: str) -> None:
        goodbye: dict[str, Any] = {"type": "websocket.disconnect", "code": code, "reason": reason, "rule": rule}
        self.queue.put_nowait(goodbye)  # type: ignore[arg-type]  # `rule` is ours, beside ASGI's keys
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self._stop_listening()

    def _stop_listening(self) -> None:
        """Read no more, so that a flood costs nothing, and close once the farewell has had time to arrive."""
        self._is_deaf = True
        self._wanted = 0
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        self.loop.call_later(_FAREWELL_S, self.transport.close)


def _frame_at(buffer: bytearray, at: int) -> tuple[int, int]:
    """Return where the payload and the end of the masked frame at `at` are, or at least how far to read to know.

    A frame that may not be taken whole (larger than any message may be, or not masked) ends where the buffer does and
    has no payload: whoever is to refuse it sees its header.
    """
    size = len(buffer)
    if size - at < 2:  # noqa: PLR2004  RFC 6455, section 5.2: flags and size, larger sizes, the mask
        return 0, at + 2
    length = buffer[at + 1] & 0x7F
    start = at + 6
    if length == 126:  # noqa: PLR2004  as above
        start += 2
        if size < at + 4:
            return 0, at + 4
        length = int.from_bytes(buffer[at + 2 : at + 4], "big")
    elif length == 127:  # noqa: PLR2004  as above
        start += 8
        if size < at + 10:
            return 0, at + 10
        length = int.from_bytes(buffer[at + 2 : at + 10], "big")
    if length > frames.MAX_MESSAGE_BYTES or not buffer[at + 1] & _MASKED:
        return 0, size
    return start, start + length
