"""Requests whose body comes in pieces: kept until it is whole, within bounds that no gateway can talk its way past."""

from dataclasses import dataclass, field

from poolhouse_agent.errors import ProtocolError, RequestRefused
from poolhouse_agent.protocol import frames
from poolhouse_agent.protocol.frames import RequestHead

# Eight of the largest at once; more are refused, and the gateway asks another node.
MAX_GATHERED_BYTES = 8 * frames.MAX_BODY_BYTES


@dataclass(slots=True)
class _Unfinished:
    head: RequestHead
    size: int
    pieces: list[bytes] = field(default_factory=list)
    have: int = 0


class Bodies:
    """The unfinished bodies of one tunnel, by stream."""

    def __init__(self) -> None:
        self._unfinished: dict[int, _Unfinished] = {}
        self._promised = 0

    def __len__(self) -> int:
        return len(self._unfinished)

    def begin(self, stream: int, head: RequestHead, piece: bytes) -> bytes | None:
        """Take a REQUEST; return its body if it is whole. Raises RequestRefused, ProtocolError."""
        size = head.body_bytes
        if size is None or size == len(piece):
            return piece
        if size < len(piece):
            raise ProtocolError(f"a body of {len(piece)} bytes where {size} were announced")
        if size > frames.MAX_BODY_BYTES:
            raise RequestRefused("body_too_large", f"{size} bytes")
        if self._promised + size > MAX_GATHERED_BYTES:
            raise RequestRefused("too_many_streams", "too many large requests are on their way")
        self._promised += size
        self._unfinished[stream] = _Unfinished(head, size, [piece], len(piece))
        return None

    def add(self, stream: int, piece: bytes) -> tuple[RequestHead, bytes] | None:
        """Take a BODY frame; return the request once it is whole, None before. Raises ProtocolError.

        A piece for a stream that is not known was written before the gateway heard that it had ended.
        """
        body = self._unfinished.get(stream)
        if body is None:
            return None
        if not piece:
            raise ProtocolError(f"an empty BODY on stream {stream}")
        body.pieces.append(piece)
        body.have += len(piece)
        if body.have > body.size:
            raise ProtocolError(f"more than the announced {body.size} bytes of body on stream {stream}")
        if body.have < body.size:
            return None
        self.drop(stream)
        return body.head, b"".join(body.pieces)

    def drop(self, stream: int) -> bool:
        """Forget an unfinished body; tell whether there was one."""
        body = self._unfinished.pop(stream, None)
        if body is not None:
            self._promised -= body.size
        return body is not None
