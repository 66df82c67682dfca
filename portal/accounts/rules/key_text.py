"""The text of an API key: `sk-pool-<public id>-<secret>-<checksum>`. The checksum finds typing errors, no more."""

import hashlib
import re
import zlib
from dataclasses import dataclass

from portal.core import ids

PREFIX = "sk-pool-"
_PUBLIC_LENGTH = 15
_SECRET_LENGTH = 32
_SHAPE = re.compile(r"sk-pool-k[0-9a-z]{15}-[0-9a-z]{32}-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that has just been made; `text` is shown once and never stored."""

    public_id: str
    text: str


def new_key(*, public_id: str | None = None) -> NewKey:
    """Make a key with 160 secret bits; with a public id, another secret for that key."""
    public_id = public_id or f"k{ids.random_text(_PUBLIC_LENGTH)}"
    body = f"{PREFIX}{public_id}-{ids.random_text(_SECRET_LENGTH)}"
    return NewKey(public_id=public_id, text=f"{body}-{_checksum(body)}")


def is_well_formed(text: str) -> bool:
    """Tell whether the text has a key's shape and its checksum fits."""
    if not _SHAPE.fullmatch(text):
        return False
    body, _, checksum = text.rpartition("-")
    return _checksum(body) == checksum


def digest(text: str) -> str:
    """Return the hex SHA-256 of the key's text, which is all that is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
