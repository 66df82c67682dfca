"""Does the GPU start at all, and does it count right?"""

from typing import Any

import torch

from .outcome import Progress, Unsupported, Wrong
from .timing import synchronize

_SIDE = 64


def start(device: Any, _options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Open the device and multiply small integers exactly. Raises Unsupported, Wrong."""
    if device.type == "cuda" and not torch.version.cuda:
        raise Wrong("cuda_not_built_in", f"PyTorch {torch.__version__} has no CUDA")
    found = _facts(device)
    progress(0.5)
    numbers = torch.arange(_SIDE * _SIDE, dtype=torch.float32).reshape(_SIDE, _SIDE).remainder(17)
    there = (numbers.to(device) @ numbers.to(device)).cpu()
    synchronize(device)
    if not torch.equal(there, numbers @ numbers):
        raise Wrong("cuda_start_failed", "a small product of whole numbers came out wrong")
    return found


def _facts(device: Any) -> dict[str, Any]:
    facts = {"torch": torch.__version__, "cuda": torch.version.cuda or "", "device": device.type}
    if device.type != "cuda":
        return facts
    if not torch.cuda.is_available():
        raise Wrong("cuda_start_failed", "PyTorch sees no CUDA device", **facts)
    properties = torch.cuda.get_device_properties(device)
    capability = f"{properties.major}.{properties.minor}"
    architectures = torch.cuda.get_arch_list()
    if architectures and not _is_built_for(properties.major, properties.minor, architectures):
        raise Unsupported(f"this PyTorch is built for {' '.join(architectures)}, not for {capability}")
    return {**facts, "name": properties.name, "compute_capability": capability, "memory_bytes": properties.total_memory}


def _is_built_for(major: int, minor: int, architectures: list[str]) -> bool:
    """Machine code runs on later cards of its generation, intermediate code on every later card."""
    for architecture in architectures:
        kind, _, number = architecture.partition("_")
        digits = "".join(filter(str.isdigit, number))
        if not digits:
            continue
        built = int(digits[:-1]), int(digits[-1])
        if (kind == "sm" and built[0] == major and built[1] <= minor) or (
            kind == "compute" and built <= (major, minor)
        ):
            return True
    return False
