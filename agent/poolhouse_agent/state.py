"""The state folder: who this node is, what its owner wishes, what it did last. Only the agent's user may read it."""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from poolhouse_agent.errors import ConfigError


class Wish(StrEnum):
    """What the owner wants of this node."""

    SERVE = "serve"
    DRAIN = "drain"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Membership:
    """What `join` learned."""

    node: str
    provider: str
    server: str
    name: str
    simulate: str = ""


class State:
    """The files of one agent below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def key_file(self) -> Path:
        """The node's private key."""
        return self.folder / "identity.key"

    @property
    def engines(self) -> Path:
        """Logs and process notes of engines."""
        return self.folder / "engines"

    @property
    def receipts(self) -> Path:
        """Receipts of what this node served, and the claims that wait for one."""
        return self.folder / "receipts"

    @property
    def behaviour_file(self) -> Path:
        """Names the simulated engine's behaviour where it exists; read at every request."""
        return self.folder / "behaviour"

    def create(self) -> None:
        """Make the folder with mode 0700. Raises ConfigError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.engines.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError("state_unwritable", f"{self.folder}: {error.strerror}") from None

    def membership(self) -> Membership | None:
        """Return what `join` stored, or None. Raises ConfigError where the file is damaged."""
        raw = self._read("node.json")
        if raw is None:
            return None
        try:
            return Membership(**{name: str(raw.get(name, "")) for name in Membership.__slots__})
        except AttributeError:
            raise ConfigError("state_unreadable", f"{self.folder / 'node.json'} is not an object") from None

    def store_membership(self, membership: Membership) -> None:
        """Remember what `join` learned."""
        self.write("node.json", asdict(membership))

    def forget_membership(self) -> None:
        """Forget the pool; the key stays until `join` makes another."""
        (self.folder / "node.json").unlink(missing_ok=True)

    def wish(self) -> Wish:
        """What the owner last asked for."""
        try:
            return Wish((self.folder / "wish").read_text(encoding="ascii").strip())
        except (FileNotFoundError, ValueError):
            return Wish.SERVE

    def store_wish(self, wish: Wish) -> None:
        """Remember what the owner asks for; a running agent reads it within seconds."""
        self._replace("wish", wish.value)

    def status(self) -> dict[str, Any] | None:
        """What the running agent wrote last, or None."""
        return self._read("status.json")

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a JSON file of the folder, or None where it is not there. Raises ConfigError."""
        return self._read(name)

    def stamp(self, name: str) -> tuple[int, int] | None:
        """What changes whenever the file is replaced; None where it is not there."""
        try:
            found = (self.folder / name).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def write(self, name: str, value: object) -> None:
        """Replace a JSON file as a whole."""
        self._replace(name, json.dumps(value, indent=1, sort_keys=True) + "\n")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Hold the folder's lock, so that one agent runs on it. Raises ConfigError."""
        with (self.folder / "run.lock").open("w", encoding="ascii") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError("agent_running", f"another agent runs on {self.folder}") from None
            yield

    def is_running(self) -> bool:
        """Whether an agent holds the folder's lock."""
        try:
            with (self.folder / "run.lock").open("r", encoding="ascii") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        try:
            value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except PermissionError:
            raise ConfigError("state_unreadable", f"{path}: run this as the agent's user") from None
        except ValueError:
            raise ConfigError("state_unreadable", f"{path} is not JSON") from None
        return value

    def _replace(self, name: str, text: str) -> None:
        try:
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=f".{name}-")
            with os.fdopen(handle, "w", encoding="utf-8") as output:
                output.write(text)
                output.flush()
                os.fsync(output.fileno())
                _give_to_owner(output.fileno(), self.folder)
            Path(temporary).replace(self.folder / name)
        except OSError as error:
            raise ConfigError("state_unwritable", f"{self.folder / name}: {error.strerror}") from None


def _give_to_owner(handle: int, folder: Path) -> None:
    """A file that an administrator writes belongs to the agent's user all the same, or the agent could not read it."""
    owner = folder.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(handle, owner.st_uid, owner.st_gid)
