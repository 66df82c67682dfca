"""Releases of the agent: versions, what a manifest says, who signed it, and which nodes are offered it."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from portal.core.errors import InvalidValue
from portal.nodes.rules import signatures

CONTEXT = b"poolhouse-release-v1\n"
FORMAT = 1
HALT_AT_FAILURES = 3
HALT_AT_SHARE = 5  # one in so many
# What says nothing against a release: it runs, or the pool or a registry was away.
NO_FAULT_CODES = frozenset({"", "release_unreachable"})
# Why updates do not come by themselves, by what the agent says of them.
POLICY_CODES = {"held": "updates_held", "manual": "updates_manual"}
_RANKS = {"house": 0, "contracted": 1, "all": 2}
_CLASS_RANKS = {"house": 0, "contracted": 1}
_PARTS = 1_000_000
_VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class ReleaseSignatureInvalid(InvalidValue):
    """The manifest is not signed by the pool's release key."""

    code = "release_signature_invalid"


class ReleaseInvalid(InvalidValue):
    """The manifest, or a file, is not what it must be."""

    code = "release_invalid"


@dataclass(frozen=True, slots=True)
class File:
    """A file of a release: its name, its hex SHA-256 and its length."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a release is made of."""

    version: str
    protocol: int
    wheel: File
    requirements: File


def version_parts(version: str) -> tuple[int, int, int]:
    """Return major, minor and patch. Raises ReleaseInvalid."""
    found = _VERSION.fullmatch(version)
    if not found:
        raise ReleaseInvalid(f"{version[:40]!r} is not a version such as 1.2.3", param="version")
    return int(found[1]), int(found[2]), int(found[3])


def version_order(version: str) -> int:
    """Return a number that grows with the version. Raises ReleaseInvalid."""
    major, minor, patch = version_parts(version)
    return (major * _PARTS + minor) * _PARTS + patch


def skew_code(*, agent: str, portal: str) -> str:
    """Return the failure of an agent more than one minor version away from the portal, or an empty text.

    Another major version counts as far away; a version that cannot be read is not judged.
    """
    if not _VERSION.fullmatch(agent) or not _VERSION.fullmatch(portal):
        return ""
    ours, theirs = version_parts(portal), version_parts(agent)
    ahead = theirs[1] - ours[1] if theirs[0] == ours[0] else (theirs[0] - ours[0]) * _PARTS
    if abs(ahead) <= 1:
        return ""
    return "agent_ahead" if ahead > 0 else "agent_outdated"


def read_manifest(raw: bytes) -> Manifest:
    """Read a manifest. Raises ReleaseInvalid."""
    try:
        value = json.loads(raw)
    except ValueError:
        raise ReleaseInvalid("the manifest is not JSON", param="manifest") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT or not isinstance(value.get("files"), dict):
        raise ReleaseInvalid(f"the manifest is not of format {FORMAT}", param="manifest")
    version, protocol = value.get("version"), value.get("protocol")
    if not isinstance(version, str) or not isinstance(protocol, int):
        raise ReleaseInvalid("the manifest names no version or protocol", param="manifest")
    version_parts(version)
    files = value["files"]
    return Manifest(version, protocol, _file(files.get("wheel")), _file(files.get("requirements")))


def require_signature(*, manifest: bytes, signature: str, public_key: str) -> None:
    """Raise ReleaseSignatureInvalid unless the key signed the manifest."""
    if not signatures.is_signed(public_key=public_key, message=CONTEXT + manifest, signature=signature):
        raise ReleaseSignatureInvalid("the manifest is not signed by AGENT_RELEASE_PUBLIC_KEY", param="signature")


def require_content(file: File, content: bytes) -> None:
    """Raise ReleaseInvalid unless the content is the file's."""
    if len(content) != file.size or hashlib.sha256(content).hexdigest() != file.sha256:
        raise ReleaseInvalid(f"{file.name} is not the file of the manifest", param=file.name)


def is_offered(*, node_class: str, node: str, version: str, ring: str, percent: int) -> bool:
    """Tell whether a release has reached this node: its ring first, then its place within the percentage.

    The place follows from node and version, so that it stays while the percentage grows, and every release begins
    with other nodes.
    """
    if _CLASS_RANKS.get(node_class, _RANKS["all"]) > _RANKS[ring]:
        return False
    draw = hashlib.sha256(f"{version}/{node}".encode()).digest()
    return int.from_bytes(draw[:8], "big") % 100 < percent


def must_halt(*, failed: int, tried: int) -> bool:
    """Tell whether a release fails so often that it should reach no further node."""
    return failed >= HALT_AT_FAILURES and failed * HALT_AT_SHARE >= tried


def _file(value: Any) -> File:
    if not isinstance(value, dict):
        raise ReleaseInvalid("the manifest lacks a file", param="manifest")
    name, digest, size = value.get("name"), value.get("sha256"), value.get("size")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ReleaseInvalid("a file of the manifest has no usable name", param="manifest")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or not isinstance(size, int) or size < 1:
        raise ReleaseInvalid(f"{name} has no SHA-256 or no size", param="manifest")
    return File(name, digest, size)
