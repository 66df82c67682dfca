"""What the operating system says about this machine; a fact that cannot be read is left out."""

import os
import platform
from pathlib import Path
from typing import Any

_MEMINFO = Path("/proc/meminfo")
_UPTIME = Path("/proc/uptime")
_OS_RELEASE = Path("/etc/os-release")


def facts() -> dict[str, Any]:
    """What does not change while the machine runs."""
    return _known({
        "os": _os_name(),
        "kernel": platform.release(),
        "cpu_count": os.cpu_count(),
        "memory_bytes": _memory("MemTotal"),
    })  # fmt: skip


def load() -> dict[str, Any]:
    """How busy the machine is."""
    return _known({
        "uptime_s": _uptime_s(),
        "memory_available_bytes": _memory("MemAvailable"),
        "load_1m": round(os.getloadavg()[0], 2),
    })  # fmt: skip


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _os_name() -> str | None:
    for line in _read(_OS_RELEASE).splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip('"')[:80]
    return platform.system() or None


def _memory(field: str) -> int | None:
    for line in _read(_MEMINFO).splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return None


def _uptime_s() -> int | None:
    text = _read(_UPTIME)
    return int(float(text.split()[0])) if text else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
