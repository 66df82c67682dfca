"""The secret of an invitation link and how it is stored."""

import hashlib

from portal.core import ids

_LENGTH = 32


def new_token() -> str:
    """Make a token with 160 random bits."""
    return ids.random_text(_LENGTH)


def digest(token: str) -> str:
    """Return the hex SHA-256, which is all that is stored."""
    return hashlib.sha256(token.encode()).hexdigest()
