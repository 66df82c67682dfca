"""Reads one attempt's frames in their order: the head, the body, the end; every wait has its stage's deadline."""

from typing import Final

from poolhouse_common.receipts import TunnelDigest

from portal.core.records import record
from portal.gateway import failures
from portal.gateway.exchange import CustomerGone
from portal.gateway.tunnel import frames
from portal.gateway.tunnel.streams import Frame, Interrupted, NodeSilent, NodeStream, TunnelLost

EVENTS: Final = "text/event-stream"
JSON: Final = "application/json"

_OK: Final = 200
_ERROR_BODY_TIMEOUT_S: Final = 5.0
_MAX_TYPE: Final = 100
_MAX_RETRY_AFTER_S: Final = 86_400.0
# An answer may come in crumbs for a while; after that its frames must carry so much each, as whole events do.
_FRAME_BYTES: Final = 16
_CRUMBS: Final = 65_536


@record(frozen=True, slots=True)
class Head:
    """The engine's status and content type, as the agent tells them."""

    status: int
    content_type: str
    retry_after_s: float | None = None


class Upstream:
    """One attempt's answer as it comes; a good one must be of the type that was asked for."""

    __slots__ = ("_content_type", "_digest", "_head", "_room", "_stream")

    def __init__(self, stream: NodeStream, *, content_type: str, digest: TunnelDigest) -> None:
        self._stream = stream
        self._digest = digest
        self._content_type = content_type
        self._head: Head | None = None
        self._room = _CRUMBS

    async def read(self, timeout_s: float) -> bytes | None:
        """Return the next bytes of the body, None at its end. Raises NodeFailed, NodeSilent, CustomerGone."""
        if self._head is None:
            self._head = await self._read_head(timeout_s)
            if self._head.status != _OK:
                said = self._head.retry_after_s
                raise failures.from_engine(self._head.status, await self._error_body(), retry_after_s=said)
            self._check_type(self._head.content_type)
        kind, payload = await self._next(timeout_s)
        if kind == frames.DATA:
            # One addition: cheaper than counting frames and bytes, and it bounds the work an answer can make.
            self._room += len(payload) - _FRAME_BYTES * self._stream.gathered
            if self._room < 0:
                raise failures.broke("frames_too_small", last_bytes=len(payload))
            self._digest.add(payload)
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
        if not isinstance(status, int) or isinstance(status, bool) or not isinstance(content_type, str):
            raise failures.broke("head_without_status")
        if head.get("content_encoding") not in {None, "", "identity"}:
            raise failures.broke("content_type_wrong", encoding=str(head["content_encoding"])[:_MAX_TYPE])
        return Head(status=status, content_type=content_type, retry_after_s=_seconds(head.get("retry_after_s")))

    def _check_type(self, said: str) -> None:
        if said.partition(";")[0].strip().lower() != self._content_type:
            raise failures.broke("content_type_wrong", said=said[:_MAX_TYPE], expected=self._content_type)

    async def _error_body(self) -> bytes:
        body = b""
        try:
            while len(body) < failures.MAX_ERROR_BYTES:
                kind, payload = await self._next(_ERROR_BODY_TIMEOUT_S)
                if kind != frames.DATA:
                    break
                self._digest.add(payload)
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


def _seconds(said: object) -> float | None:
    """Return the time a busy engine wants to be left alone; None where the agent names none that makes sense."""
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said < _MAX_RETRY_AFTER_S:
        return None
    return float(said)


def _parse(payload: bytes) -> dict[str, object]:
    try:
        return frames.parse_object(payload)
    except frames.ProtocolError as error:
        raise failures.broke("frame_not_json") from error
