"""Identifiers: time-ordered UUIDs and short public ids."""

import os
import secrets
import time
from uuid import UUID

_POOL_BYTES = 4_096  # one call to the system gives enough for hundreds of ids; a call each cost more than the id
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u


def uuid7() -> UUID:
    """Return a UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then 74 random bits."""
    raw = bytearray(random_bytes())
    raw[:6] = (time.time_ns() // 1_000_000).to_bytes(6, "big")
    raw[6] = 0x70 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return UUID(bytes=bytes(raw))


def random_bytes() -> bytes:
    """Return 16 random bytes of the system's, as good as any for a secret."""
    try:
        return _pool.pop()
    except IndexError:
        fresh = os.urandom(_POOL_BYTES)
        _pool.extend(fresh[at : at + 16] for at in range(16, _POOL_BYTES, 16))
        return fresh[:16]


def random_text(length: int) -> str:
    """Return `length` random characters of Crockford's base 32 (5 bits each)."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def public_id(prefix: str) -> str:
    """Return a new public id such as `node_4t9…`: the prefix and 100 random bits."""
    return f"{prefix}_{random_text(20)}"


_pool: list[bytes] = []
os.register_at_fork(after_in_child=_pool.clear)  # two processes must never draw the same
