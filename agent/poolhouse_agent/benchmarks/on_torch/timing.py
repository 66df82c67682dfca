"""Times work on a device: nothing is finished before the device says so."""

import time
from collections.abc import Callable
from typing import Any

import torch


def synchronize(device: Any) -> None:
    """Wait until all work on the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(device: Any, work: Callable[[], object], *, repeats: int) -> float:
    """Return the seconds that one call takes on average over `repeats`, after one that does not count."""
    work()
    synchronize(device)
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    synchronize(device)
    return (time.perf_counter() - began) / repeats


def rounds(
    device: Any, work: Callable[[], object], *, seconds: float, most: int = 100_000, say: Callable[[float], None]
) -> list[float]:
    """Call `work` for about `seconds`; return what each call took, telling how much of the time is over."""
    work()
    synchronize(device)
    taken: list[float] = []
    began = time.perf_counter()
    while (before := time.perf_counter()) - began < seconds and len(taken) < most:
        work()
        synchronize(device)
        taken.append(time.perf_counter() - before)
        say(min(1.0, (time.perf_counter() - began) / seconds))
    return taken
