"""The units' texts for this machine."""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from poolhouse_agent import installation
from poolhouse_agent.errors import ConfigError

AGENT = "poolhouse-agent.service"
SOCKETS = ("poolhouse-engine.socket", "poolhouse-download.socket")
INSTANCES = ("poolhouse-engine@*.service", "poolhouse-download@*.service")
_BEHIND_SOCKETS = ("poolhouse-engine@.service", "poolhouse-download@.service")
UPDATE = ("poolhouse-update.path", "poolhouse-update.service")

# What only root's service manager can do; a person's own ignores it or refuses the unit.
_ROOT_ONLY = frozenset({
    "AmbientCapabilities", "CapabilityBoundingSet", "IOSchedulingClass", "IPAddressAllow", "IPAddressDeny",
    "InaccessiblePaths", "LimitMEMLOCK", "LimitNOFILE", "OOMScoreAdjust", "PrivateDevices", "PrivateTmp",
    "ProtectClock", "ProtectControlGroups", "ProtectHome", "ProtectHostname", "ProtectKernelLogs",
    "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "ProtectSystem", "ReadWritePaths",
})  # fmt: skip
_UNSAFE = frozenset("\"'\\%\n\r$ ")


@dataclass(frozen=True, slots=True)
class Place:
    """For whom the units are, and the paths in them."""

    config: Path
    state: Path
    is_user: bool = False
    user: str = "poolhouse"
    run: Path = Path("/run")


def unit_files(place: Place, *, environ: Mapping[str, str], prefix: Path = Path(sys.prefix)) -> dict[str, str]:
    """Return name and text of every unit for the agent of the venv `prefix`. Raises ConfigError.

    A path that a unit cannot hold is refused.
    """
    installed = installation.here(prefix)
    names = [AGENT] if place.is_user else [AGENT, *SOCKETS, *_BEHIND_SOCKETS]  # a person's own fences off no network
    if installed and (installed.prefix / "release.json").exists():
        names += UPDATE
    values = _values(place, installed, environ)
    return {name: _text(name, values, is_user=place.is_user) for name in names}


def _values(place: Place, installed: installation.Installation | None, environ: Mapping[str, str]) -> dict[str, str]:
    program = shutil.which("poolhouse-agent") or f"{sys.executable} -m poolhouse_agent"
    paths = {
        "config": str(place.config.absolute()),
        "state": str(place.state.absolute()),
        "run": str(place.run),
        "prefix": str(installed.prefix) if installed else "",
        "python": str(installed.python) if installed else sys.executable,
        "vllm": environ.get("POOLHOUSE_VLLM", ""),
        "nvml": environ.get("POOLHOUSE_NVML", ""),
    }
    for name, value in paths.items():
        if _UNSAFE & set(value):
            raise ConfigError("config_invalid", f"a unit file cannot hold the {name} {value!r}")
    return {
        **paths,
        "program": str(installed.program) if installed else program,
        "target": "default.target" if place.is_user else "multi-user.target",
        "identity": "" if place.is_user else f"User={place.user}\nGroup={place.user}",
        "owner": "" if place.is_user else f"SocketUser={place.user}",
    }


def _text(name: str, values: Mapping[str, str], *, is_user: bool) -> str:
    template = resources.files("poolhouse_agent.units").joinpath(name).read_text(encoding="ascii")
    lines = template.format(**values).splitlines()
    if is_user:
        lines = [line for line in lines if line.partition("=")[0] not in _ROOT_ONLY]
    return "\n".join(lines) + "\n"
