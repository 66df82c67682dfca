"""The slices of a partitioned (MIG) GPU: each has a UUID and memory of its own."""

from collections.abc import Callable
from typing import Any

import pynvml


def instances(gpu: Any, ask: Callable[[Callable[[], Any]], tuple[Any, str]]) -> list[dict[str, Any]]:
    """Return the slices of a GPU, each field a value or, under `missing`, a reason. Raises what NVML raises."""
    found = []
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        handle, reason = ask(lambda at=index: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, at))  # type: ignore[misc]  # a default argument binds the loop's variable
        if reason in {"gpu_not_found", "invalid_argument"}:
            continue  # a place without a slice
        found.append({"index": index, **_slice(handle, ask)} if not reason else _unread(index, reason))
    return found


def _slice(handle: Any, ask: Callable[[Callable[[], Any]], tuple[Any, str]]) -> dict[str, Any]:
    questions: dict[str, Callable[[], Any]] = {
        "uuid": lambda: pynvml.nvmlDeviceGetUUID(handle),
        "name": lambda: pynvml.nvmlDeviceGetName(handle),
        "memory_bytes": lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total,
        "memory_used_bytes": lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used,
        "gpu_instance": lambda: pynvml.nvmlDeviceGetGpuInstanceId(handle),
        "compute_instance": lambda: pynvml.nvmlDeviceGetComputeInstanceId(handle),
        "multiprocessors": lambda: pynvml.nvmlDeviceGetAttributes_v2(handle).multiprocessorCount,
    }
    answers = {name: ask(question) for name, question in questions.items()}
    values = {name: value for name, (value, reason) in answers.items() if not reason}
    return {**values, "missing": {name: reason for name, (_, reason) in answers.items() if reason}}


def _unread(index: int, reason: str) -> dict[str, Any]:
    return {"index": index, "missing": {"uuid": reason}}
