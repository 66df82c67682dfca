"""Matrix products: how fast by number format, whether they come out the same, and for how long they stay fast."""

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any, Final

import torch

from .outcome import Progress, Unsupported, Wrong
from .timing import rounds, synchronize

_SIDE = 8192
_TERA = 1e12
_FP8_SINCE = (8, 9)
_BF16_SINCE = (8, 0)
_SEED = 20_260_101
_PLAIN: Final[Mapping[str, Any]] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_EARLY = 0.25  # of the time


def product(device: Any, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Multiply for `seconds` in one format; return the mean TFLOPS of the second half, when clocks have settled."""
    side, dtype = int(options.get("side", _SIDE)), str(options["dtype"])
    work = _work(device, dtype, side)
    taken = rounds(device, work, seconds=float(options.get("seconds", 3.0)), say=progress)
    late = taken[len(taken) // 2 :]
    return {"tflops": _tflops(side, fmean(late)), "best_tflops": _tflops(side, min(taken)), "side": side,
            "rounds": len(taken)}  # fmt: skip


def repeat(device: Any, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Compute one product again and again. Raises Wrong where any bit differs."""
    side, times = int(options.get("side", _SIDE)), int(options.get("times", 50))
    work = _work(device, "fp16" if device.type == "cuda" else "fp32", side)
    first = work().clone()
    for number in range(times):
        if not torch.equal(work(), first):
            raise Wrong("compute_inconsistent", f"product {number + 1} of {times} differs", side=side)
        progress((number + 1) / times)
    return {"times": times, "side": side}


def soak(device: Any, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Multiply without a pause; return how many percent of the early speed are left at the end."""
    side, length = int(options.get("side", _SIDE)), float(options.get("seconds", 60.0))
    work = _work(device, str(options.get("dtype", "fp16")), side)
    taken = rounds(device, work, seconds=length, say=progress)
    part = max(1, int(len(taken) * _EARLY))
    early, late = fmean(taken[:part]), fmean(taken[-part:])
    return {"percent": min(100.0, 100 * early / late), "first_tflops": _tflops(side, early),
            "last_tflops": _tflops(side, late), "seconds": length, "rounds": len(taken)}  # fmt: skip


def _work(device: Any, dtype: str, side: int) -> Callable[[], Any]:
    """Return a product of normally distributed numbers: zeros draw less power and run faster. Raises Unsupported."""
    generator = torch.Generator(device=device).manual_seed(_SEED)
    left, right = (torch.randn(side, side, device=device, generator=generator) for _ in range(2))
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    if dtype in {"tf32", "fp8"} and capability is None:
        raise Unsupported(f"{device.type} has no {dtype}")
    if capability is not None and dtype in {"bf16", "tf32"} and capability < _BF16_SINCE:
        raise Unsupported(f"compute capability {capability[0]}.{capability[1]} has no {dtype}")
    if dtype == "fp8":
        return _fp8(left, right, capability)
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    kind = _PLAIN.get(dtype, torch.float32)
    left, right = left.to(kind), right.to(kind)
    out = torch.empty(side, side, device=device, dtype=kind)
    synchronize(device)
    return lambda: torch.matmul(left, right, out=out)


def _fp8(left: Any, right: Any, capability: tuple[int, int] | None) -> Callable[[], Any]:
    if capability is None or capability < _FP8_SINCE or not hasattr(torch, "_scaled_mm"):
        raise Unsupported(f"compute capability {capability} has no fp8")
    one = torch.ones((), device=left.device)
    left, right = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn).t()  # it takes the second one by columns
    return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: SLF001  no public name yet


def _tflops(side: int, seconds: float) -> float:
    return 2 * side**3 / seconds / _TERA
