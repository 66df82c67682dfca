"""The node's Ed25519 key: made here, kept with mode 0600, never sent."""

import base64
import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from poolhouse_agent.errors import ConfigError

_KEY_BYTES = 32
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Identity:
    """A node's key pair."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public_key(self) -> str:
        """The public half, base64 of 32 bytes."""
        return base64.b64encode(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()

    def sign(self, text: bytes) -> str:
        """Return the base64 signature of `text`."""
        return base64.b64encode(self._key.sign(text)).decode()


def load(path: Path) -> Identity:
    """Read the key. Raises ConfigError where it is absent, damaged, or readable by others."""
    try:
        with path.open("rb") as handle:
            if stat.S_IMODE(os.fstat(handle.fileno()).st_mode) & _OTHERS:
                raise ConfigError("state_exposed", f"{path} can be read by other users")
            raw = base64.b64decode(handle.read(256).strip(), validate=True)
    except FileNotFoundError:
        raise ConfigError("state_unreadable", f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise ConfigError("state_unreadable", f"{path}: {error}") from None
    if len(raw) != _KEY_BYTES:
        raise ConfigError("state_unreadable", f"{path} holds {len(raw)} bytes instead of {_KEY_BYTES}")
    return Identity(Ed25519PrivateKey.from_private_bytes(raw))


def load_or_create(path: Path) -> Identity:
    """Read the key, or make one with mode 0600. Raises ConfigError."""
    if not path.exists():
        _create(path)
    return load(path)


def _create(path: Path) -> None:
    raw = Ed25519PrivateKey.generate().private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    temporary = path.with_suffix(".new")
    try:
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as output:
            output.write(base64.b64encode(raw) + b"\n")
            output.flush()
            os.fsync(output.fileno())
        temporary.replace(path)
    except OSError as error:
        raise ConfigError("state_unwritable", f"{path}: {error.strerror}") from None
