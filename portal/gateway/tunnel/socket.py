"""The tunnel's WebSocket beneath ASGI: what a hostile agent can do there costs no other connection anything."""

from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from portal.gateway.tunnel import frames

# A read brings up to 256 KB: of the smallest messages that would be 20,000, parsed at one go while everybody waits.
_SLICE_BYTES: Final = 16_384
_MAX_FRAGMENTS: Final = 64
_MAX_CONTROL: Final = 100
_CONTROL_WINDOW_S: Final = 10.0
_MAX_AFTER_CLOSE_BYTES: Final = 65_536
_FAREWELL_S: Final = 1.0
_TOO_LARGE: Final = 1009


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket with a bound on pings, fragments, work at one go, and on what comes after a close.

    A broken bound ends the connection; the application hears of it as a `websocket.disconnect` that names the `rule`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rest = b""
        self._control = 0
        self._control_since = 0.0
        self._after_close_bytes = 0
        self._is_deaf = False

    def data_received(self, data: bytes) -> None:
        """Take what was read; only a slice of it is parsed before others have their turn."""
        if self._is_deaf:
            return
        if self.close_sent:
            self._after_close_bytes += len(data)
            if self._after_close_bytes > _MAX_AFTER_CLOSE_BYTES:
                self._stop_listening()
                return
        if self._rest and not self.close_sent:
            self._rest += data
        else:
            self._parse(self._rest + data if self._rest else data)

    async def receive(self) -> Any:
        """Return the next message for the application; reading goes on once nothing waits."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            if self._rest:
                self._parse(self._rest)
            if self.queue.empty():
                self.read_paused = False
                self.transport.resume_reading()
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

    def handle_parser_exception(self) -> None:
        """End a connection whose bytes are no WebSocket, or whose message is too large."""
        sent = self.conn.close_sent
        code = sent.code if sent is not None else frames.CLOSE_PROTOCOL_ERROR
        rule = "tunnel_message_too_large" if code == _TOO_LARGE else "tunnel_protocol"
        self._say_farewell(code, sent.reason if sent is not None else "", rule)

    def _parse(self, data: bytes) -> None:
        """Parse slices until one brings a message, or all are done; what is left waits for its turn."""
        while data and not self.transport.is_closing():
            super().data_received(data[:_SLICE_BYTES])
            data = data[_SLICE_BYTES:]
            if not self.queue.empty() and not self.close_sent:
                break
        self._rest = data

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
        self.conn.fail(frames.CLOSE_PROTOCOL_ERROR, reason)
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
        self._rest = b""
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        self.loop.call_later(_FAREWELL_S, self.transport.close)
