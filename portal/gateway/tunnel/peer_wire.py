"""The socket between two gateway processes: who is there, and length-prefixed frames."""

import asyncio
import hashlib
import hmac
import secrets
import struct
from typing import Final

from portal.gateway.deadlines import within
from portal.gateway.tunnel import frames
from portal.gateway.tunnel.streams import TunnelLost

_LENGTH: Final = struct.Struct(">I")
# What a REQUEST between processes begins with: the node it is for, and how many bytes its body has in all.
ERRAND: Final = struct.Struct(">QI")
_NONCE_BYTES: Final = 32
_PROOF_BYTES: Final = 32
_MAX_FRAME_BYTES: Final = frames.MAX_MESSAGE_BYTES + 64
HANDSHAKE_TIMEOUT_S: Final = 2.0
WRITE_TIMEOUT_S: Final = 5.0


class PeerRefused(Exception):
    """The other end does not know the pool's secret."""


def derive_key(secret: str) -> bytes:
    """Return the key that proves a process belongs to this pool."""
    return hmac.digest(secret.encode(), b"poolhouse-peer-v2", "sha256")


def _proof(key: bytes, role: bytes, challenge: bytes, answer: bytes) -> bytes:
    return hmac.digest(key, role + challenge + answer, hashlib.sha256)


async def greet_as_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes) -> None:
    """Challenge the caller and prove ourselves. Raises PeerRefused."""
    challenge = secrets.token_bytes(_NONCE_BYTES)
    writer.write(challenge)
    answer = await reader.readexactly(_NONCE_BYTES)
    proof = await reader.readexactly(_PROOF_BYTES)
    if not hmac.compare_digest(proof, _proof(key, b"client", challenge, answer)):
        raise PeerRefused
    writer.write(_proof(key, b"server", answer, challenge))
    await writer.drain()


async def greet_as_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes) -> None:
    """Answer the challenge and check the server's proof. Raises PeerRefused."""
    answer = secrets.token_bytes(_NONCE_BYTES)
    challenge = await reader.readexactly(_NONCE_BYTES)
    writer.write(answer + _proof(key, b"client", challenge, answer))
    proof = await reader.readexactly(_PROOF_BYTES)
    if not hmac.compare_digest(proof, _proof(key, b"server", answer, challenge)):
        raise PeerRefused


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    """Return the next frame. Raises IncompleteReadError at the end, ProtocolError for an oversized one."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > _MAX_FRAME_BYTES:
        raise frames.ProtocolError(f"a frame of {length} bytes")
    return frames.unpack(await reader.readexactly(length))


async def write_frame(writer: asyncio.StreamWriter, message: bytes) -> None:
    """Write one frame within a deadline. Raises TunnelLost."""
    if writer.is_closing():
        raise TunnelLost("the peer's socket is closed")
    try:
        writer.write(_LENGTH.pack(len(message)) + message)
        await within(WRITE_TIMEOUT_S, writer.drain())
    except (TimeoutError, OSError) as error:
        raise TunnelLost("the peer does not take what is written to it") from error
