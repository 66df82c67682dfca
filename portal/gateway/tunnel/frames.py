"""Frames of the agent protocol: one byte type, four bytes stream, payload."""

import struct
from typing import Any, Final

import orjson

REQUEST: Final = 0x01
CANCEL: Final = 0x02
WINDOW: Final = 0x03
GOAWAY: Final = 0x04
HELLO: Final = 0x10
HEAD: Final = 0x11
DATA: Final = 0x12
END: Final = 0x13
FAIL: Final = 0x14
STATUS: Final = 0x15

MAX_MESSAGE_BYTES: Final = 1_048_576
WINDOW_BYTES: Final = 262_144
HEADER: Final = struct.Struct(">BI")
_WINDOW: Final = struct.Struct(">I")
_MAX_JSON_BYTES: Final = 65_536

CLOSE_PROTOCOL_ERROR: Final = 4400
CLOSE_SESSION_INVALID: Final = 4401
CLOSE_SUPERSEDED: Final = 4409
CLOSE_RESTART: Final = 1012


class ProtocolError(Exception):
    """The other side broke the protocol; the connection must end."""


def pack(kind: int, stream: int, payload: bytes = b"") -> bytes:
    """Return one message."""
    return HEADER.pack(kind, stream) + payload


def unpack(message: bytes) -> tuple[int, int, bytes]:
    """Split one message. Raises ProtocolError when it is shorter than its header."""
    if len(message) < HEADER.size:
        raise ProtocolError(f"a message of {len(message)} bytes has no header")
    kind, stream = HEADER.unpack_from(message)
    return kind, stream, message[HEADER.size :]


def pack_window(stream: int, credit: int) -> bytes:
    """Return a WINDOW message."""
    return HEADER.pack(WINDOW, stream) + _WINDOW.pack(credit)


def unpack_window(payload: bytes) -> int:
    """Return the credit a WINDOW message grants. Raises ProtocolError."""
    if len(payload) != _WINDOW.size:
        raise ProtocolError("WINDOW carries four bytes")
    return int(_WINDOW.unpack(payload)[0])


def pack_request(head: dict[str, Any], body: bytes) -> bytes:
    """Return the payload of a REQUEST: the head as JSON, a line feed, the body."""
    return orjson.dumps(head) + b"\n" + body


def parse_object(payload: bytes) -> dict[str, Any]:
    """Parse the JSON object a frame carries. Raises ProtocolError."""
    if len(payload) > _MAX_JSON_BYTES:
        raise ProtocolError(f"a JSON payload of {len(payload)} bytes; at most {_MAX_JSON_BYTES}")
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise ProtocolError("the payload is not JSON") from error
    if not isinstance(value, dict):
        raise ProtocolError("the payload is not a JSON object")
    return value
