"""Keeps small secrets unreadable at rest by keys made from SECRET_KEY; SECRET_KEY_FALLBACKS still open older ones."""

import base64
import hashlib
import hmac

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from portal.core.errors import DomainError


class SealBroken(DomainError):
    """What was sealed opens with no key that this deployment has."""

    code = "seal_broken"


def seal(text: str, *, purpose: str) -> str:
    """Return the text as it is stored."""
    return _keys(purpose).encrypt(text.encode()).decode()


def unseal(sealed: str, *, purpose: str) -> str:
    """Return the text as it was given. Raises SealBroken."""
    try:
        return _keys(purpose).decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        raise SealBroken(
            "this was sealed with another SECRET_KEY", fix="add the old key to SECRET_KEY_FALLBACKS"
        ) from error


def fingerprints(text: str, *, purpose: str) -> list[str]:
    """Return names of the text that say nothing about it: by the newest key first, then as older keys named it."""
    return [hmac.new(_key(secret, purpose), text.encode(), hashlib.sha256).hexdigest() for secret in _secrets()]


def _secrets() -> list[str]:
    return [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]


def _keys(purpose: str) -> MultiFernet:
    return MultiFernet([Fernet(base64.urlsafe_b64encode(_key(secret, purpose))) for secret in _secrets()])


def _key(secret: str, purpose: str) -> bytes:
    return hashlib.sha256(f"poolhouse.{purpose}\0".encode() + secret.encode()).digest()
