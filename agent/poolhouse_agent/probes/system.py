"""The operating system and the machine's identity."""

import hashlib
import platform
from pathlib import Path

from poolhouse_agent.probes.reading import Probe, fields, known, text


def _name(root: Path) -> str:
    return known(fields(root / "etc/os-release").get("PRETTY_NAME"))[:80]


def _kernel(root: Path) -> str:
    return known(text(root / "proc/sys/kernel/osrelease"))[:80]


def _host_id(root: Path) -> str:
    """A stable name of this installation that does not give the system's own id away."""
    own = known(text(root / "etc/machine-id"))
    return hashlib.sha256(f"poolhouse-host\n{own}".encode()).hexdigest()[:32]


def _boot_id(root: Path) -> str:
    return known(text(root / "proc/sys/kernel/random/boot_id"))[:40]


def _product(root: Path) -> str:
    """The maker's name of the machine, such as `Supermicro SYS-420GP`."""
    parts = [text(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    return known(" ".join(part for part in parts if part))[:80]


def _uptime_s(root: Path) -> int:
    return int(float(text(root / "proc/uptime").split()[0]))


FACTS: dict[str, Probe] = {
    "os": _name,
    "kernel": _kernel,
    "architecture": lambda _root: known(platform.machine()),
    "product": _product,
    "host_id": _host_id,
    "boot_id": _boot_id,
}
LOAD: dict[str, Probe] = {"uptime_s": _uptime_s}
