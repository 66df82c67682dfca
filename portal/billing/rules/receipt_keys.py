"""The portal's key for receipts: signs what a node is told of an attempt, and seals what only the pool may read."""

import base64
import binascii
import hashlib
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_NONCE_BYTES = 12
_SEAL_PURPOSE = b"poolhouse-receipt-seal-v1"


class ReceiptKey:
    """One Ed25519 key made from a seed of 32 bytes, and the sealing key that follows from the same seed."""

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public_key = base64.b64encode(public).decode()
        sealing = HKDF(algorithm=SHA256(), length=32, salt=None, info=_SEAL_PURPOSE).derive(seed)
        self._seal = ChaCha20Poly1305(sealing)

    def sign(self, message: bytes) -> str:
        """Return the base64 signature."""
        return base64.b64encode(self._key.sign(message)).decode()

    def is_own(self, *, message: bytes, signature: str) -> bool:
        """Tell whether the signature is this key's over the message."""
        try:
            self._key.public_key().verify(base64.b64decode(signature, validate=True), message)
        except (InvalidSignature, ValueError, binascii.Error):
            return False
        return True

    def seal(self, plain: bytes, *, attempt: str) -> str:
        """Return what only this key opens, in base64; the same plain text of the same attempt is sealed alike."""
        # Equal nonces meet equal texts only: both follow from the text itself.
        nonce = hashlib.sha256(_SEAL_PURPOSE + attempt.encode() + b"\n" + plain).digest()[:_NONCE_BYTES]
        return base64.b64encode(nonce + self._seal.encrypt(nonce, plain, attempt.encode())).decode()

    def unseal(self, sealed: str, *, attempt: str) -> bytes | None:
        """Return the plain text; None where it was not sealed by this key for this attempt."""
        try:
            raw = base64.b64decode(sealed, validate=True)
            return self._seal.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], attempt.encode())
        except (InvalidTag, ValueError, binascii.Error):
            return None


@lru_cache(maxsize=4)
def key_of(seed_text: str) -> ReceiptKey:
    """Return the key of a base64 seed. Raises ValueError where it is not 32 bytes."""
    return ReceiptKey(base64.b64decode(seed_text, validate=True))
