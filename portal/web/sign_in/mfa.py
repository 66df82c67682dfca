"""Second factors: their secrets are encrypted at rest with a key made from SECRET_KEY."""

import base64
import hashlib

from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings


class PoolMFAAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth ships no types
    """Encrypts with SECRET_KEY; SECRET_KEY_FALLBACKS still open what older keys closed."""

    def encrypt(self, text: str) -> str:
        """Return the secret as it is stored."""
        return _keys().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Return the secret as it is used."""
        return _keys().decrypt(encrypted_text.encode()).decode()


def _keys() -> MultiFernet:
    return MultiFernet([_fernet(secret) for secret in [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]])


def _fernet(secret: str) -> Fernet:
    digest = hashlib.sha256(b"poolhouse.mfa\0" + secret.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
