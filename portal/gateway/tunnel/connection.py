"""A node's tunnel as this process holds it: the WebSocket's writer, the streams and what the agent says it runs."""

import time
from typing import Any, Final, Protocol

from portal.gateway.deadlines import within
from portal.gateway.tunnel import frames
from portal.gateway.tunnel.streams import Mux, NodeStream, TunnelLost

_WRITE_TIMEOUT_S: Final = 10.0
_CLOSE_TIMEOUT_S: Final = 2.0
_MAX_DEPLOYMENTS: Final = 64
_MAX_CONCURRENCY: Final = 4_096
_STATUSES_AT_ONCE: Final = 120.0
_STATUSES_PER_S: Final = 4.0


class BodyTooLarge(Exception):
    """The node's agent does not take bodies of this size: it is older than BODY frames."""


class Line(Protocol):
    """The connection to the agent. `write` and `drain` raise OSError where it has ended."""

    @property
    def is_full(self) -> bool: ...  # whether what was written waits for the agent to take it

    async def drain(self) -> None: ...

    def write(self, message: bytes) -> None: ...

    async def close(self, code: int, reason: str) -> None: ...


class NodeTunnel:
    """One node's tunnel in this process."""

    def __init__(self, *, node_id: int, node_public_id: str, generation: int, line: Line) -> None:
        self.node_id = node_id
        self.node_public_id = node_public_id
        self.generation = generation
        self.ready_models: dict[str, int] = {}
        self.is_draining = False
        self.max_body_bytes = frames.PLAIN_BODY_BYTES
        self.mux = Mux(self._write)
        self.connected_at = time.monotonic()
        self._line = line
        self._is_closed = False
        self._statuses = _STATUSES_AT_ONCE
        self._status_at = self.connected_at

    @property
    def is_usable(self) -> bool:
        """Whether a new request may go through it."""
        return not self.mux.is_lost and not self.is_draining

    async def open(self, payload: bytes, *, body_bytes: int) -> NodeStream:
        """Send one request, or the first piece of it, to the node. Raises TunnelLost, BodyTooLarge."""
        if body_bytes > self.max_body_bytes:
            raise BodyTooLarge
        return await self.mux.open(payload)

    def greet(self, message: dict[str, Any]) -> None:
        """Take the agent's HELLO. Raises ProtocolError."""
        self.note_deployments(message)
        most = message.get("max_body_bytes", 0)
        if not isinstance(most, int) or isinstance(most, bool):
            raise frames.ProtocolError("max_body_bytes is a whole number")
        self.max_body_bytes = min(max(most, frames.PLAIN_BODY_BYTES), frames.MAX_BODY_BYTES)

    def note_status(self, message: dict[str, Any]) -> None:
        """Take a STATUS. Raises ProtocolError, also when there is no end of them."""
        now = time.monotonic()
        self._statuses = min(_STATUSES_AT_ONCE, self._statuses + (now - self._status_at) * _STATUSES_PER_S) - 1
        self._status_at = now
        if self._statuses < 0:
            raise frames.ProtocolError("too many STATUS messages", rule="tunnel_flood")
        self.note_deployments(message)

    def note_deployments(self, message: dict[str, Any]) -> None:
        """Take the agent's list of what it runs. Raises ProtocolError."""
        rows = message.get("deployments")
        if not isinstance(rows, list) or len(rows) > _MAX_DEPLOYMENTS:
            raise frames.ProtocolError(f"deployments is a list of at most {_MAX_DEPLOYMENTS}")
        ready: dict[str, int] = {}
        for row in rows:
            if not isinstance(row, dict) or not isinstance(row.get("model"), str):
                raise frames.ProtocolError("a deployment names its model")
            concurrency = row.get("max_concurrency", 1)
            if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 0:
                raise frames.ProtocolError("max_concurrency is a whole number")
            if row.get("state") == "ready":
                ready[row["model"]] = min(concurrency, _MAX_CONCURRENCY)
        self.ready_models = ready

    def take(self, message: bytes) -> bool:
        """Take one message of the agent's; return whether it said what it runs. Raises ProtocolError."""
        kind, stream, payload = frames.unpack(message)
        if stream:
            self.mux.receive(kind, stream, payload)
            return False
        if kind != frames.STATUS:
            raise frames.ProtocolError(f"frame {kind:#04x} does not belong on stream 0")
        self.note_status(frames.parse_object(payload))
        return True

    async def go_away(self) -> None:
        """Tell the agent that no new requests come, so that it connects elsewhere once its streams have ended."""
        self.is_draining = True
        await self._write(frames.pack(frames.GOAWAY, 0))

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket; requests that run on it are lost. Safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self.mux.lose()
        try:
            await within(_CLOSE_TIMEOUT_S, self._line.close(code, reason))
        except (TimeoutError, OSError, RuntimeError):
            return  # the socket is gone already, which is what was wanted

    async def _write(self, message: bytes) -> None:
        if self._is_closed:
            raise TunnelLost("the tunnel is closed")
        try:
            if self._line.is_full:
                await within(_WRITE_TIMEOUT_S, self._line.drain())
            self._line.write(message)
        except (TimeoutError, OSError) as error:
            self.mux.lose()
            raise TunnelLost("the node does not take what is written to it") from error
