"""Tunnel messages: one byte type, four bytes stream, payload."""

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from poolhouse_agent.errors import ProtocolError

MAX_MESSAGE_BYTES = 1 << 20
HEADER_BYTES = 5
INITIAL_WINDOW = 262_144
MAX_WINDOW = 1 << 31
MAX_BODY_BYTES = (8 << 20) + 65_536


class FrameType(IntEnum):
    """What a tunnel message is."""

    REQUEST = 0x01
    CANCEL = 0x02
    WINDOW = 0x03
    GOAWAY = 0x04
    BODY = 0x05
    HELLO = 0x10
    HEAD = 0x11
    DATA = 0x12
    END = 0x13
    FAIL = 0x14
    STATUS = 0x15


FROM_GATEWAY = frozenset({FrameType.REQUEST, FrameType.CANCEL, FrameType.WINDOW, FrameType.GOAWAY, FrameType.BODY})


@dataclass(frozen=True, slots=True)
class Frame:
    """One message of the tunnel."""

    type: FrameType
    stream: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a REQUEST frame asks for, beside its body. `body_bytes` is said where the body goes on in BODY frames."""

    method: str
    path: str
    model: str
    attempt: str
    nonce: str
    body_bytes: int | None = None


def encode(frame_type: FrameType, stream: int, payload: bytes = b"") -> bytes:
    """Return the bytes of one message."""
    return bytes((frame_type,)) + stream.to_bytes(4, "big") + payload


def encode_json(frame_type: FrameType, stream: int, value: object) -> bytes:
    """Return the bytes of one message whose payload is JSON."""
    return encode(frame_type, stream, json.dumps(value, separators=(",", ":")).encode())


def decode(message: bytes) -> Frame:
    """Read one message from the gateway. Raises ProtocolError."""
    if len(message) < HEADER_BYTES:
        raise ProtocolError(f"a message of {len(message)} bytes has no header")
    try:
        frame_type = FrameType(message[0])
    except ValueError:
        raise ProtocolError(f"unknown frame type 0x{message[0]:02x}") from None
    if frame_type not in FROM_GATEWAY:
        raise ProtocolError(f"{frame_type.name} does not come from a gateway")
    frame = Frame(frame_type, int.from_bytes(message[1:HEADER_BYTES], "big"), message[HEADER_BYTES:])
    if (frame.stream == 0) != (frame_type is FrameType.GOAWAY):
        raise ProtocolError(f"{frame_type.name} on stream {frame.stream}")
    return frame


def read_window(payload: bytes) -> int:
    """Read a WINDOW payload: how many more bytes may be sent. Raises ProtocolError."""
    if len(payload) != 4:  # noqa: PLR2004  the payload is one unsigned 32-bit number
        raise ProtocolError(f"WINDOW of {len(payload)} bytes")
    return int.from_bytes(payload, "big")


def read_request(payload: bytes) -> tuple[RequestHead, bytes]:
    """Split a REQUEST payload into head and body. Raises ProtocolError."""
    line, separator, body = payload.partition(b"\n")
    if not separator:
        raise ProtocolError("REQUEST has no line end after its head")
    try:
        head: Any = json.loads(line)
        texts = {name: _text(head, name) for name in ("method", "path", "model", "attempt", "nonce")}
        return RequestHead(**texts, body_bytes=_size(head)), body
    except (ValueError, RecursionError):
        raise ProtocolError("REQUEST has no JSON head") from None


def _size(head: Any) -> int | None:
    value = head.get("body_bytes")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ProtocolError("REQUEST head: `body_bytes` is not a size")
    return value


def _text(head: Any, name: str) -> str:
    value = head.get(name) if isinstance(head, dict) else None
    if not isinstance(value, str):
        raise ProtocolError(f"REQUEST head lacks the text `{name}`")
    return value
