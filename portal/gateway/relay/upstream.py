"""Reads one attempt's frames in their order: the head, the body, the end; every wait has its stage's deadline."""

from dataclasses import dataclass
from typing import Final

from portal.gateway import failures
from portal.gateway.exchange import CustomerGone
from portal.gateway.tunnel import frames
from portal.gateway.tunnel.streams import Frame, Interrupted, NodeSilent, NodeStream, TunnelLost

_OK: Final = 200
_ERROR_BODY_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Head:
    """The engine's status and content type, as the agent tells them."""

    status: int
    content_type: str


class Upstream:
    """One attempt's answer as it comes."""

    __slots__ = ("_head", "_stream")

    def __init__(self, stream: NodeStream) -> None:
        self._stream = stream
        self._head: Head | None = None

    async def read(self, timeout_s: float) -> bytes | None:
        """Return the next bytes of the body, None at its end. Raises NodeFailed, NodeSilent, CustomerGone."""
        if self._head is None:
            self._head = await self._read_head(timeout_s)
            if self._head.status != _OK:
                raise failures.from_engine(self._head.status, await self._error_body())
        kind, payload = await self._next(timeout_s)
        if kind == frames.DATA:
            return payload
        if kind == frames.END:
            return None
        raise failures.broke("second_head")

    async def _read_head(self, timeout_s: float) -> Head:
        kind, payload = await self._next(timeout_s)
        if kind != frames.HEAD:
            raise failures.broke("body_before_head")
        head = _parse(payload)
        status, content_type = head.get("status"), head.get("content_type", "")
        if not isinstance(status, int) or not isinstance(content_type, str):
            raise failures.broke("head_without_status")
        return Head(status=status, content_type=content_type)

    async def _error_body(self) -> bytes:
        body = b""
        try:
            while len(body) < failures.MAX_ERROR_BYTES:
                kind, payload = await self._next(_ERROR_BODY_TIMEOUT_S)
                if kind != frames.DATA:
                    break
                body += payload
        except NodeSilent:
            return body
        return body

    async def _next(self, timeout_s: float) -> Frame:
        try:
            frame = await self._stream.next(timeout_s)
        except TunnelLost as error:
            raise failures.tunnel_lost() from error
        except Interrupted as error:
            raise CustomerGone from error
        if frame[0] == frames.FAIL:
            raise failures.from_agent(str(_parse(frame[1]).get("code", "")))
        return frame


def _parse(payload: bytes) -> dict[str, object]:
    try:
        return frames.parse_object(payload)
    except frames.ProtocolError as error:
        raise failures.broke("frame_not_json") from error
