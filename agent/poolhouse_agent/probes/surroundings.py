"""What this runs in: a virtual machine, a container, WSL, an embedded board; and the driver's kernel module."""

import re
from dataclasses import dataclass
from pathlib import Path

from poolhouse_agent.probes.memory import of_meminfo
from poolhouse_agent.probes.reading import Probe, Unknown, ask, fields, known, text

# What a hypervisor writes where a maker's name stands.
_MAKERS = {
    "qemu": "kvm", "kvm": "kvm", "vmware": "vmware", "virtualbox": "virtualbox", "innotek": "virtualbox",
    "microsoft corporation virtual": "hyper-v", "xen": "xen", "amazon ec2": "aws", "google compute engine": "google",
    "openstack": "openstack", "parallels": "parallels", "bhyve": "bhyve", "digitalocean": "digitalocean",
    "hetzner vserver": "kvm",
}  # fmt: skip
_DMI: dict[str, Probe] = {
    "maker": lambda root: text(root / "sys/class/dmi/id/sys_vendor"),
    "product": lambda root: text(root / "sys/class/dmi/id/product_name"),
}
_BARE_METAL = ("metal",)
_MODULE = re.compile(r"Kernel Module(?:\s+for\s+\S+)?\s+([0-9][0-9.]*)")
_DEVICE = re.compile(r"nvidia\d+")
_CGROUPS = {"docker": "docker", "kubepods": "kubernetes", "libpod": "podman", "lxc": "lxc", "garden": "garden"}


@dataclass(frozen=True, slots=True)
class Machine:
    """What the report of the GPUs needs to know of the machine; NVML cannot say it."""

    memory_bytes: int | None = None
    is_wsl: bool = False
    is_jetson: bool = False
    container: str = ""
    module: str = ""


def _virtualization(root: Path) -> str:
    """The hypervisor's name, `unknown` where there is one without a name, `none` on bare metal."""
    if is_wsl(root):
        return "wsl"
    product = " ".join(ask(_DMI, root)[0].values()).lower()
    if not any(word in product for word in _BARE_METAL):
        for sign, name in _MAKERS.items():
            if sign in product:
                return name
    flags = known(fields(root / "proc/cpuinfo").get("flags")).split()
    return "unknown" if "hypervisor" in flags else "none"


def _container(root: Path) -> str:
    """The kind of container, `none` where no sign of one is found."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    marked = ask({"kind": lambda at: text(at / "run/systemd/container")}, root)[0].get("kind")
    if marked:
        return str(marked)[:32]
    groups = text(root / "proc/1/cgroup")
    return next((name for sign, name in _CGROUPS.items() if sign in groups), "none")


def _module(root: Path) -> str:
    """The version of the kernel module that is loaded, whatever the library says."""
    found = _MODULE.search(text(root / "proc/driver/nvidia/version"))
    if found is None:
        raise Unknown("unreadable")
    return found[1]


def _module_kind(root: Path) -> str:
    return "open" if "Open Kernel Module" in text(root / "proc/driver/nvidia/version") else "proprietary"


def _devices(root: Path) -> int:
    """How many GPUs the kernel shows to this process, whatever the library says."""
    return sum(1 for entry in (root / "dev").iterdir() if _DEVICE.fullmatch(entry.name))


def is_wsl(root: Path) -> bool:
    """Tell whether this is Windows' subsystem for Linux; an unreadable kernel name is none of it."""
    release = ask({"kernel": lambda at: text(at / "proc/sys/kernel/osrelease")}, root)[0].get("kernel", "")
    return "microsoft" in str(release).lower()


def is_jetson(root: Path) -> bool:
    """Tell whether this is one of NVIDIA's embedded boards."""
    model = ask({"model": lambda at: text(at / "proc/device-tree/model")}, root)[0].get("model", "")
    return (root / "etc/nv_tegra_release").exists() or "jetson" in str(model).lower()


def machine(root: Path) -> Machine:
    """Look around."""
    probes = {"memory": of_meminfo("MemTotal"), "container": _container, "module": _module}
    values, _ = ask(probes, root)
    container = str(values.get("container", "none"))
    return Machine(
        memory_bytes=values.get("memory"),
        is_wsl=is_wsl(root),
        is_jetson=is_jetson(root),
        container="" if container == "none" else container,
        module=str(values.get("module", "")),
    )


FACTS: dict[str, Probe] = {
    "virtualization": _virtualization,
    "container": _container,
    "driver_module": _module,
    "driver_module_kind": _module_kind,
    "gpu_devices": _devices,
}
