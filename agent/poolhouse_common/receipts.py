"""Receipts: the exact bytes that a node and the portal hash and sign for one attempt. Both sides share this page.

A receipt holds the node's claim with its signature, the portal's bill for the attempt, and the portal's signature over
all of that. It has no text of anybody's: a digest with a nonce that only the two ends of the tunnel know.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

VERSION: Final = 1
_CLAIM: Final = b"poolhouse-receipt-v1\n"
_COUNTERSIGNATURE: Final = b"poolhouse-countersign-v1\n"
_NOT_SIGNED: Final = frozenset({"portal_signature"})


class TunnelDigest:
    """SHA-256 over what one attempt sent through the tunnel: nonce, size of the body, body, and the answer as it came.

    The nonce makes the digest of a short text one that nobody can find by trying texts.
    """

    __slots__ = ("_hash", "answer_bytes", "nonce")

    def __init__(self, nonce: str, body: bytes) -> None:
        self.nonce = nonce
        self.answer_bytes = 0
        self._hash = hashlib.sha256(f"{nonce} {len(body)}\n".encode())
        self._hash.update(body)

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the answer."""
        self._hash.update(piece)
        self.answer_bytes += len(piece)

    def hex(self) -> str:
        """Return the digest of what has come so far."""
        return self._hash.hexdigest()

    def proof(self) -> str:
        """Return nonce, bytes and digest as one text, as the gateway's record keeps them."""
        return f"{self.nonce}:{self.answer_bytes}:{self.hex()}"


def canonical(value: object) -> bytes:
    """Return the one byte form of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def claim_message(claim: Mapping[str, Any]) -> bytes:
    """Return the bytes that the node signs."""
    return _CLAIM + canonical(claim)


def countersign_message(receipt: Mapping[str, Any]) -> bytes:
    """Return the bytes that the portal signs: the whole receipt but for that signature."""
    return _COUNTERSIGNATURE + canonical({name: value for name, value in receipt.items() if name not in _NOT_SIGNED})
