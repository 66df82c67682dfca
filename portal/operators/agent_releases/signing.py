"""The manifest of a release and the offline key that signs it. Only the public half is ever given to a portal."""

import base64
import hashlib
import json
import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from portal.core.errors import DomainError
from portal.nodes.rules.releases import CONTEXT, FORMAT, read_manifest
from portal.nodes.rules.signatures import PROTOCOL
from portal.nodes.services.releases import Files
from portal.operators.agent_releases.building import REQUIREMENTS, Built

_MANIFEST, _SIGNATURE = "manifest.json", "manifest.sig"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class ReleaseKeyUnusable(DomainError):
    """The key file is absent, damaged, readable by others, or already there."""

    code = "release_key_unusable"


def manifest(built: Built) -> bytes:
    """Return the bytes that are signed."""
    value = {
        "format": FORMAT,
        "version": built.version,
        "protocol": PROTOCOL,
        "files": {
            "wheel": _described(built.wheel_name, built.wheel),
            "requirements": _described(REQUIREMENTS, built.requirements),
        },
    }
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def write(folder: Path, built: Built) -> None:
    """Put a release into a folder, unsigned."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / built.wheel_name).write_bytes(built.wheel)
    (folder / REQUIREMENTS).write_bytes(built.requirements)
    (folder / _MANIFEST).write_bytes(manifest(built))
    (folder / _SIGNATURE).unlink(missing_ok=True)


def read(folder: Path) -> Files:
    """Read a release from its folder. Raises OSError, ReleaseInvalid."""
    raw = (folder / _MANIFEST).read_bytes()
    named = read_manifest(raw)
    signature = folder / _SIGNATURE
    return Files(
        manifest=raw,
        signature=signature.read_text(encoding="ascii").strip() if signature.exists() else "",
        wheel=(folder / named.wheel.name).read_bytes(),
        requirements=(folder / named.requirements.name).read_bytes(),
    )


def make_key(path: Path) -> str:
    """Make the key file with mode 0600; return the public half in base64. Raises ReleaseKeyUnusable."""
    key = Ed25519PrivateKey.generate()
    raw = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as output:
            output.write(base64.b64encode(raw) + b"\n")
    except OSError as error:
        raise ReleaseKeyUnusable(f"{path}: {error.strerror}") from error
    return public_half(key)


def load_key(path: Path) -> Ed25519PrivateKey:
    """Read the key file. Raises ReleaseKeyUnusable."""
    try:
        with path.open("rb") as handle:
            if stat.S_IMODE(os.fstat(handle.fileno()).st_mode) & _OTHERS:
                raise ReleaseKeyUnusable(f"{path} can be read by other users", fix="Run `chmod 600` on it.")
            return Ed25519PrivateKey.from_private_bytes(base64.b64decode(handle.read(256).strip(), validate=True))
    except (OSError, ValueError) as error:
        raise ReleaseKeyUnusable(f"{path}: {error}") from error


def public_half(key: Ed25519PrivateKey) -> str:
    """Return the public half in base64."""
    return base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def sign(folder: Path, key: Ed25519PrivateKey) -> str:
    """Sign the manifest in the folder; return the signature in base64. Raises OSError."""
    signature = base64.b64encode(key.sign(CONTEXT + (folder / _MANIFEST).read_bytes())).decode()
    (folder / _SIGNATURE).write_text(signature + "\n", encoding="ascii")
    return signature


def _described(name: str, content: bytes) -> dict[str, object]:
    return {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
