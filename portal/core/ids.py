"""Identifiers: time-ordered UUIDs and short public ids."""

import os
import secrets
import time
from uuid import UUID

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u


def uuid7() -> UUID:
    """Return a UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then 74 random bits."""
    raw = bytearray(os.urandom(16))
    raw[:6] = (time.time_ns() // 1_000_000).to_bytes(6, "big")
    raw[6] = 0x70 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return UUID(bytes=bytes(raw))


def random_text(length: int) -> str:
    """Return `length` random characters of Crockford's base 32 (5 bits each)."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def public_id(prefix: str) -> str:
    """Return a new public id such as `node_4t9…`: the prefix and 100 random bits."""
    return f"{prefix}_{random_text(20)}"
