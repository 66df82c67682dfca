"""Where `install.sh` put this software: a venv for each version beside the others, and a link to the one in use.

<prefix>/versions/0.1.0/   the venv            <prefix>/current       links to the version in use
<prefix>/release.json      where releases come from, and the key that signs them
<prefix>/update.json       how the last update went
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolhouse_agent.errors import ConfigError

_VERSIONS = "versions"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where releases come from; `public_key` (base64 of 32 bytes) was pinned at installation, empty where none was."""

    server: str
    public_key: str


@dataclass(frozen=True, slots=True)
class Installation:
    """The folders of one installation."""

    prefix: Path

    @property
    def current(self) -> Path:
        """The link to the version in use."""
        return self.prefix / "current"

    @property
    def program(self) -> Path:
        """The command, whichever version is in use."""
        return self.current / "bin" / "poolhouse-agent"

    @property
    def python(self) -> Path:
        """The interpreter, whichever version is in use."""
        return self.current / "bin" / "python"

    @property
    def updater(self) -> Path:
        """The link to the version that updates: it follows `current` once that has reached the pool."""
        return self.prefix / "updater"

    @property
    def versions(self) -> Path:
        """Where the venvs lie."""
        return self.prefix / _VERSIONS

    def venv(self, version: str, wheel_sha256: str) -> Path:
        """Where a build of a version lies."""
        return self.versions / f"{version}-{wheel_sha256[:8]}"

    def origin(self) -> Origin | None:
        """Return what was pinned at installation, or None. Raises ConfigError where the file is damaged."""
        path = self.prefix / "release.json"
        value = _read(path)
        if value is None:
            return None
        if not isinstance(value.get("server"), str) or not isinstance(value.get("public_key", ""), str):
            raise ConfigError("config_invalid", f"{path} names no server")
        return Origin(server=value["server"], public_key=value.get("public_key", ""))

    def last_update(self) -> dict[str, Any]:
        """Return how the last update went; empty where there was none."""
        return _read(self.prefix / "update.json") or {}


def here(prefix: Path = Path(sys.prefix)) -> Installation | None:
    """Return the installation this process runs from, or None where it was installed in another way."""
    return Installation(prefix.parent.parent) if prefix.parent.name == _VERSIONS else None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError("config_invalid", f"{path}: {error}") from None
    return value if isinstance(value, dict) else None
