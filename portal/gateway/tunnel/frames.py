"""Frames of the agent protocol: one byte type, four bytes stream, payload."""

import struct
from collections.abc import Iterator
from typing import Any, Final

import orjson

REQUEST: Final = 0x01
CANCEL: Final = 0x02
WINDOW: Final = 0x03
GOAWAY: Final = 0x04
BODY: Final = 0x05
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
MAX_JSON_BYTES: Final = 65_536
# A body that does not fit into its REQUEST goes on in BODY frames, small enough for other streams to get in between.
BODY_PIECE_BYTES: Final = 262_144
MAX_BODY_BYTES: Final = 8 * 1_048_576 + 65_536
_REQUEST_ROOM: Final = 4_096
PLAIN_BODY_BYTES: Final = MAX_MESSAGE_BYTES - _REQUEST_ROOM

CLOSE_PROTOCOL_ERROR: Final = 4400
CLOSE_SESSION_INVALID: Final = 4401
CLOSE_SUPERSEDED: Final = 4409
CLOSE_RESTART: Final = 1012


class ProtocolError(Exception):
    """The other side broke the protocol; the connection must end. `rule` is what that is evidence against."""

    def __init__(self, message: str, *, rule: str = "tunnel_protocol") -> None:
        super().__init__(message)
        self.rule = rule


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
    """Return the payload of a REQUEST: the head as JSON, a line feed, the body or its first piece.

    A head that says `body_bytes` announces a body that goes on in BODY frames (`body_pieces`).
    """
    if len(body) <= PLAIN_BODY_BYTES:
        return orjson.dumps(head) + b"\n" + body
    return orjson.dumps(head | {"body_bytes": len(body)}) + b"\n" + body[:BODY_PIECE_BYTES]


def body_pieces(body: bytes) -> Iterator[bytes]:
    """Return what of the body did not go into its REQUEST, piece by piece."""
    if len(body) > PLAIN_BODY_BYTES:
        for start in range(BODY_PIECE_BYTES, len(body), BODY_PIECE_BYTES):
            yield body[start : start + BODY_PIECE_BYTES]


def parse_object(payload: bytes) -> dict[str, Any]:
    """Parse the JSON object a frame carries. Raises ProtocolError."""
    if len(payload) > MAX_JSON_BYTES:
        raise ProtocolError(f"a JSON payload of {len(payload)} bytes; at most {MAX_JSON_BYTES}")
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise ProtocolError("the payload is not JSON") from error
    if not isinstance(value, dict):
        raise ProtocolError("the payload is not a JSON object")
    return value
