"""Checks of the machine: system, memory, disk, packages, systemd."""

import os
import platform
import shutil
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from poolhouse_agent import host
from poolhouse_agent.checks.result import Result, Status, Surroundings, ok, skipped, trouble

_OLDEST_PYTHON = (3, 11)
_LOW_MEMORY = 8 << 30
_LOW_DISK = 20 << 30
_OTHERS = 0o077
_SYSTEMD = Path("/run/systemd/system")


async def system(_around: Surroundings) -> list[Result]:
    """Linux on x86-64 or ARM, not WSL."""
    facts = host.facts()
    found = f"{facts.get('os', 'unknown')} on {platform.machine()}, kernel {facts.get('kernel', '')}"
    if platform.system() != "Linux" or platform.machine() not in {"x86_64", "aarch64"}:
        return [trouble("system", Status.FAIL, "platform_unsupported", found)]
    if "microsoft" in platform.release().lower():
        return [trouble("system", Status.WARN, "wsl", found, kernel=platform.release())]
    return [ok("system", found, **facts)]


async def python(_around: Surroundings) -> list[Result]:
    """A Python new enough."""
    version = platform.python_version()
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return [
            replace(trouble("python", Status.FAIL, "python_unsupported", version), threshold="Python 3.11 or newer")
        ]
    return [ok("python", version, executable=sys.executable)]


async def memory(_around: Surroundings) -> list[Result]:
    """Main memory."""
    total = int(host.facts().get("memory_bytes", 0))
    detail = f"{total / (1 << 30):.0f} GiB"
    if total < _LOW_MEMORY:
        low = trouble("memory", Status.WARN, "memory_low", detail, memory_bytes=total)
        return [replace(low, threshold=f"at least {_LOW_MEMORY >> 30} GiB")]
    return [ok("memory", detail, memory_bytes=total)]


async def disk(around: Surroundings) -> list[Result]:
    """Space where the state lies and where the models lie."""
    folders = {around.state.folder, *(folder.path for folder in around.config.models.values())}
    results = []
    for folder in sorted(folders):
        free = shutil.disk_usage(_existing(folder)).free
        detail = f"{free / (1 << 30):.0f} GiB free for {folder}"
        if free < _LOW_DISK:
            low = trouble("disk", Status.WARN, "disk_space_low", detail, free_bytes=free)
            results.append(replace(low, threshold=f"at least {_LOW_DISK >> 30} GiB free"))
        else:
            results.append(ok("disk", detail, free_bytes=free))
    return results


async def packages(_around: Surroundings) -> list[Result]:
    """The deprecated package that shadows NVIDIA's own."""
    try:
        version = metadata.version("pynvml")
    except metadata.PackageNotFoundError:
        return [ok("packages", "no package stands in the way")]
    return [trouble("packages", Status.WARN, "deprecated_nvml_package", f"pynvml {version} is installed")]


async def service(_around: Surroundings) -> list[Result]:
    """systemd, which runs the agent after a reboot."""
    if _has_systemd():
        return [ok("service", "systemd runs", is_root=os.geteuid() == 0)]
    return [
        trouble("service", Status.WARN, "systemd_missing", "no systemd: start `poolhouse-agent run` by your own means")
    ]


async def state(around: Surroundings) -> list[Result]:
    """The state folder and the key in it."""
    return [_state(around.state.folder, around.state.key_file)]


def _state(folder: Path, key: Path) -> Result:
    if not folder.exists():
        return skipped("state", f"{folder} does not exist yet; `join` makes it")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return trouble("state", Status.FAIL, "state_unwritable", str(folder))
    if key.exists() and key.stat().st_mode & _OTHERS:
        return trouble("state", Status.FAIL, "state_exposed", str(key), mode=oct(key.stat().st_mode & 0o777))
    return ok("state", f"{folder} is readable and writable")


def _has_systemd() -> bool:
    return _SYSTEMD.exists()


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
