"""Asks probes: a probe returns a value or raises Unknown with a reason; nothing it meets on the way gets out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Probe = Callable[[Path], Any]


class Unknown(Exception):
    """A reading that cannot be had here, and why in one word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def ask(probes: Mapping[str, Probe], root: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values and, for what has none, the reasons. `root` is where `/proc`, `/sys` and `/etc` lie."""
    values: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, probe in probes.items():
        try:
            values[name] = probe(root)
        except Unknown as unknown:
            missing[name] = unknown.reason
        except FileNotFoundError:
            missing[name] = "not_present"
        except PermissionError:
            missing[name] = "no_permission"
        except (OSError, ValueError, IndexError):
            missing[name] = "unreadable"
    return values, missing


def text(path: Path) -> str:
    """Return a small file's content without its line end. Raises OSError."""
    return path.read_text(encoding="utf-8", errors="replace").strip("\n\0 ")


def fields(path: Path) -> dict[str, str]:
    """Return the `name: value` or `name=value` lines of a file; the first of a name counts. Raises OSError."""
    found: dict[str, str] = {}
    for line in text(path).splitlines():
        sign = "=" if "=" in line and (":" not in line or line.index("=") < line.index(":")) else ":"
        name, separator, value = line.partition(sign)
        if separator:
            found.setdefault(name.strip(), value.strip().strip('"'))
    return found


def known(value: str | None) -> str:
    """Return a text that says something. Raises Unknown."""
    if not value:
        raise Unknown("not_reported")
    return value
