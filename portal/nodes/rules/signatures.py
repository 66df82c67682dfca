"""The node's key and what it signs to open a session."""

import base64
import binascii

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from portal.core.errors import InvalidValue

PROTOCOL = 1
SESSION_CONTEXT = "poolhouse-session-v1"
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
# The eight points of small order (RFC 8032, section 5.1): under them a signature proves nothing.
_SMALL_ORDER_Y = frozenset({
    0,
    1,
    2**255 - 20,
    2**255 - 19,
    2**255 - 18,
    0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
})  # fmt: skip


def require_public_key(text: str) -> str:
    """Return the key in its one base64 form. Raises InvalidValue."""
    raw = _decode(text, _KEY_BYTES)
    if raw is None:
        raise InvalidValue("the public key is 32 bytes in base64", param="public_key")
    if int.from_bytes(raw, "little") & (2**255 - 1) in _SMALL_ORDER_Y:
        raise InvalidValue("this public key proves nothing", param="public_key")
    return base64.b64encode(raw).decode()


def session_message(*, nonce: str, node: str, public_url: str, protocol: int) -> bytes:
    """Return the bytes that a node signs to open a session."""
    return "\n".join([SESSION_CONTEXT, nonce, node, public_url, str(protocol)]).encode()


def is_signed(*, public_key: str, message: bytes, signature: str) -> bool:
    """Tell whether `signature` (base64) is the key's over the message."""
    raw, key = _decode(signature, _SIGNATURE_BYTES), _decode(public_key, _KEY_BYTES)
    if raw is None or key is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(raw, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _decode(text: str, length: int) -> bytes | None:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == length else None
