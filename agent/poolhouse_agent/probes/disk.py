"""The disk under one folder: where state and models lie."""

import os
from pathlib import Path

from poolhouse_agent.probes.reading import Probe, Unknown, known, text

_VIRTUAL = ("vd", "xvd")


def facts(folder: Path) -> dict[str, Probe]:
    """Return the probes of what does not change."""
    return {
        "disk_bytes": lambda _root: _bytes(folder, "f_blocks"),
        "disk_kind": lambda root: _kind(root, folder),
        "disk_file_system": lambda root: _mount(root, folder)[2],
    }


def load(folder: Path) -> dict[str, Probe]:
    """Return the probes of what does."""
    return {"disk_free_bytes": lambda _root: _bytes(folder, "f_bavail")}


def _bytes(folder: Path, field: str) -> int:
    found = os.statvfs(_existing(folder))
    return int(found.f_frsize * getattr(found, field))


def _kind(root: Path, folder: Path) -> str:
    """`ssd` or `hdd`, by what the kernel says of the block device, or of the disk that its partition lies on."""
    device = _mount(root, folder)[0]
    if device.startswith("0:"):
        raise Unknown("no_block_device")
    block = (root / "sys/dev/block" / device).resolve()
    if block.name.startswith(_VIRTUAL):
        raise Unknown("virtual_device")  # it says what its host chose to say
    queue = next((one / "queue" for one in (block, block.parent) if (one / "queue/rotational").exists()), None)
    if queue is None:
        raise Unknown("not_reported")
    return "hdd" if text(queue / "rotational") == "1" else "ssd"


def _mount(root: Path, folder: Path) -> tuple[str, str, str]:
    """Return device number, mount point and file system of the folder: the longest mount point above it counts."""
    where = str(_existing(folder).resolve())
    best = ("", "", "")
    for line in text(root / "proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        device, point = left.split()[2], left.split()[4]
        is_above = point in {"/", where} or where.startswith(point + "/")
        if is_above and len(point) >= len(best[1]):
            best = (device, point, right.split()[0])
    known(best[1])
    return best


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
