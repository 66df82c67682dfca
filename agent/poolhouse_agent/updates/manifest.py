"""A release's manifest: believed only when the key that was pinned at installation has signed it."""

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from poolhouse_agent import PROTOCOL
from poolhouse_agent.errors import UpdateError

MAX_FILE_BYTES = 1 << 26
_CONTEXT = b"poolhouse-release-v1\n"
_FORMAT = 1
_VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a release: its name, its hex SHA-256 and its length."""

    name: str
    sha256: str
    size: int

    def require(self, content: bytes) -> None:
        """Raise UpdateError `release_invalid` unless the content is the file's."""
        if len(content) != self.size or hashlib.sha256(content).hexdigest() != self.sha256:
            raise UpdateError("release_invalid", f"{self.name} is not the file that was signed")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a release is made of."""

    version: str
    wheel: File
    requirements: File


def version_parts(version: str) -> tuple[int, int, int]:
    """Return major, minor and patch. Raises UpdateError."""
    found = _VERSION.fullmatch(version)
    if not found:
        raise UpdateError("release_invalid", f"{version[:40]!r} is not a version such as 1.2.3")
    return int(found[1]), int(found[2]), int(found[3])


def read(raw: bytes, *, signature: str, public_key: str) -> Manifest:
    """Check the signature, then read. Raises UpdateError."""
    if not public_key:
        raise UpdateError("release_key_missing", "release.json names no key")
    _require_signature(raw, signature, public_key)
    try:
        value = json.loads(raw)
    except ValueError:
        value = None
    if not isinstance(value, dict) or value.get("format") != _FORMAT or not isinstance(value.get("files"), dict):
        raise UpdateError("release_invalid", f"the manifest is not of format {_FORMAT}")
    if value.get("protocol") != PROTOCOL:
        raise UpdateError("release_invalid", f"the release speaks protocol {str(value.get('protocol'))[:8]}")
    version = str(value.get("version", ""))
    version_parts(version)
    return Manifest(version, _file(value["files"].get("wheel")), _file(value["files"].get("requirements")))


def require_newer(manifest: Manifest, *, wanted: str, present: str) -> None:
    """Raise UpdateError unless the manifest is the wanted version and newer than the present one."""
    if manifest.version != wanted:
        raise UpdateError("release_invalid", f"asked for {wanted}, the manifest is of {manifest.version}")
    if version_parts(manifest.version) <= version_parts(present):
        raise UpdateError("release_older", f"{manifest.version} is not newer than {present}")


def _require_signature(raw: bytes, signature: str, public_key: str) -> None:
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(signature, validate=True), _CONTEXT + raw)
    except (InvalidSignature, ValueError, binascii.Error):
        raise UpdateError("release_signature_invalid", "the pinned key did not sign this manifest") from None


def _file(value: Any) -> File:
    fields = value if isinstance(value, dict) else {}
    name, digest, size = fields.get("name"), fields.get("sha256"), fields.get("size")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UpdateError("release_invalid", "a file of the manifest has no usable name")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise UpdateError("release_invalid", f"{name} has no SHA-256")
    if not isinstance(size, int) or not 0 < size <= MAX_FILE_BYTES:
        raise UpdateError("release_invalid", f"{name} has no usable size")
    return File(name, digest, size)
