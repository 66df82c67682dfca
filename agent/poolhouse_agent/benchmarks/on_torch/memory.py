"""Memory of a GPU: how much really holds data, how fast it is, how fast the way to it is."""

from typing import Any

import torch

from .outcome import Progress, Unsupported, Wrong
from .timing import seconds

_GIB = 1 << 30
_FILLED_SHARE = 0.9
_SPARE_BLOCKS = 3  # for the numbers to compare with and the comparison's own memory
_GB = 1e9


def fill(device: Any, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Fill nine tenths of the free memory with numbers that follow from `seed`, read all back. Raises Wrong."""
    block = int(options.get("block_bytes", _GIB // 4)) // 4
    free, total = _sizes(device, options)
    wanted = int(free * _FILLED_SHARE) // (block * 4)
    seed, blocks = int(options.get("seed", 1)), []
    for number in range(max(1, wanted - _SPARE_BLOCKS)):
        made = _numbers(device, block, seed + number)
        if made is None:
            break
        blocks.append(made)
        progress(0.5 * number / wanted)
    torn = [number for number, made in enumerate(blocks) if not _holds(device, made, seed + number)]
    held = len(blocks) * block * 4
    found = {"held_bytes": held, "free_bytes": free, "total_bytes": total, "blocks": len(blocks)}
    if torn:
        raise Wrong("vram_corrupt", f"{len(torn)} of {len(blocks)} blocks came back changed", **found, torn=torn[:16])
    progress(1.0)
    spare = _SPARE_BLOCKS * block * 4
    return {**found, "percent": min(100.0, 100 * (held + spare) / (_FILLED_SHARE * total))}


def bandwidth(device: Any, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Copy within the device; return GB/s, counting what is read and what is written."""
    size = int(options.get("bytes", _GIB))
    source = torch.empty(size, dtype=torch.uint8, device=device).random_(0, 255)
    target = torch.empty_like(source)
    progress(0.2)
    taken = seconds(device, lambda: target.copy_(source), repeats=int(options.get("repeats", 20)))
    return {"gb_per_s": 2 * size / taken / _GB, "bytes": size}


def link(device: Any, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Copy pinned memory to the device and back; return GB/s each way. Raises Wrong where bytes change."""
    size = int(options.get("bytes", _GIB // 4))
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=device.type == "cuda").random_(0, 255)
    there = torch.empty(size, dtype=torch.uint8, device=device)
    repeats = int(options.get("repeats", 10))
    up = seconds(device, lambda: there.copy_(pinned, non_blocking=True), repeats=repeats)
    progress(0.5)
    back = torch.empty_like(pinned)
    down = seconds(device, lambda: back.copy_(there, non_blocking=True), repeats=repeats)
    if not torch.equal(back, pinned):
        raise Wrong("vram_corrupt", "bytes changed on the way to the GPU and back")
    return {"to_device_gb_per_s": size / up / _GB, "from_device_gb_per_s": size / down / _GB, "bytes": size}


def _sizes(device: Any, options: dict[str, Any]) -> tuple[int, int]:
    """Return free and total bytes; a device without memory of its own needs `bytes` in the options."""
    if "bytes" in options:
        return int(options["bytes"]), int(options["bytes"])
    if device.type != "cuda":
        raise Unsupported(f"{device.type} has no memory of its own")
    free, total = torch.cuda.mem_get_info(device)
    return int(free), int(total)


def _numbers(device: Any, count: int, seed: int) -> Any:
    """Whole numbers that follow from `seed`; None where no memory is left."""
    try:
        made = torch.arange(count, dtype=torch.int32, device=device)
        return made.mul_(2 * (seed % 100_003) + 1).add_(seed).bitwise_xor_(seed * 40_503 % (1 << 31))
    except torch.cuda.OutOfMemoryError:
        return None


def _holds(device: Any, made: Any, seed: int) -> bool:
    wanted = _numbers(device, made.numel(), seed)
    return wanted is not None and bool(torch.equal(made, wanted))
