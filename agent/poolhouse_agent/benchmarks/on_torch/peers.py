"""Several GPUs together: copies between each two, and the sum over all that a model across GPUs needs."""

import itertools
from typing import Any

import torch
from torch import distributed

from .outcome import Progress, Unsupported, Wrong
from .timing import seconds, synchronize

_MIB = 1 << 20
_GB = 1e9


def copies(device: Any, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Copy known numbers between each two devices, both ways. Raises Unsupported, Wrong."""
    devices = [torch.device(name) for name in options.get("devices") or _all(device)]
    pairs = list(itertools.permutations(range(len(devices)), 2))
    if not pairs:
        raise Unsupported("there is one GPU only")
    size, speeds = int(options.get("bytes", 64 * _MIB)), {}
    for number, (first, second) in enumerate(pairs):
        speeds[f"{first}-{second}"] = _copy(devices[first], devices[second], size)
        progress((number + 1) / len(pairs))
    return {"gb_per_s": min(speeds.values()), "pairs": speeds, "bytes": size}


def all_reduce(device: Any, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Be one rank of a sum over all ranks; check it and time it. Raises Wrong.

    The figure is NCCL's bus bandwidth: 2 (n - 1) / n of the bytes over the time, the same for any number of GPUs.
    """
    rank, world = int(options["rank"]), int(options["world"])
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(backend, init_method=f"file://{options['rendezvous']}", rank=rank, world_size=world)
    try:
        return _sum(device, rank, world, options, progress)
    finally:
        distributed.destroy_process_group()


def _sum(device: Any, rank: int, world: int, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    size = int(options.get("bytes", 64 * _MIB))
    block = torch.full((size // 4,), float(rank + 1), device=device)
    distributed.all_reduce(block)
    synchronize(device)
    wanted = world * (world + 1) / 2
    if not bool((block == wanted).all()):
        raise Wrong("nccl_failed", f"the sum over {world} GPUs is wrong", rank=rank)
    progress(0.5)
    block.zero_()
    taken = seconds(device, lambda: distributed.all_reduce(block), repeats=int(options.get("repeats", 20)))
    return {"gb_per_s": 2 * (world - 1) / world * size / taken / _GB, "world": world, "bytes": size}


def _copy(first: Any, second: Any, size: int) -> float:
    """Return GB/s. Raises Wrong."""
    numbers = torch.arange(size // 4, dtype=torch.int32)
    source, target = numbers.to(first), torch.zeros(size // 4, dtype=torch.int32, device=second)
    target.copy_(source)
    synchronize(second)
    if not torch.equal(target.cpu(), numbers):
        raise Wrong("peer_copy_wrong", f"numbers changed on the way from {first} to {second}")
    return size / seconds(second, lambda: target.copy_(source), repeats=10) / _GB


def _all(device: Any) -> list[str]:
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())] if device.type == "cuda" else ["cpu"]
