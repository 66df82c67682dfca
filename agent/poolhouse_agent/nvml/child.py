"""Runs as `python -m poolhouse_agent.nvml.child [LIBRARY [SKIP]]`: asks NVML everything once, a JSON line an answer.

Each answer leaves the process before the next question is put, so that a driver that hangs in one of them, on one
GPU, takes nothing with it that was known before. SKIP holds indices of GPUs to leave alone, such as `0,3`.
"""

import contextlib
import ctypes
import functools
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pynvml

from poolhouse_agent.nvml import fields, instances

_START_CODES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "nvml_library_missing",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "nvml_driver_not_loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "nvml_library_mismatch",
    pynvml.NVML_ERROR_UNKNOWN: "unknown_error",
}
_SYSTEM: dict[str, Callable[[], Any]] = {
    "driver": pynvml.nvmlSystemGetDriverVersion,
    "nvml": pynvml.nvmlSystemGetNVMLVersion,
    "cuda": pynvml.nvmlSystemGetCudaDriverVersion_v2,
    "count": pynvml.nvmlDeviceGetCount,
}
_ON_BOARD = 0


def main(library: str = "", skip: str = "") -> None:
    """Answer on standard output; whatever fails is a line of it."""
    _say(plan=["handle", *fields.IDENTITY, *fields.READINGS, "topology", "instances"])
    if failure := start(library):
        _say(failure=failure[0], detail=failure[1][:200])
        return
    try:
        _ask_everything({int(index) for index in skip.split(",") if index})
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
    _say(end=True)


def start(library: str) -> tuple[str, str] | None:
    """Load and start the library; return a code and what was said where that fails."""
    try:
        if library:
            pynvml.nvmlLib = ctypes.CDLL(library)
        pynvml.nvmlInit()
    except OSError as error:
        return "nvml_library_missing", str(error)
    except pynvml.NVMLError as error:
        return _START_CODES.get(error.value, "nvml_error"), str(error)
    return None


def _ask_everything(skip: set[int]) -> None:
    for field, question in _SYSTEM.items():
        count = _tell(field, question)
    for index in range(count or 0):
        if index not in skip:
            _ask_gpu(index, range(count))


def _ask_gpu(index: int, indices: Iterable[int]) -> None:
    _say(turn=index)
    handle, reason = ask(lambda: pynvml.nvmlDeviceGetHandleByIndex(index))
    if reason:
        _say(gpu=index, field="handle", missing=reason)
        return
    _say(gpu=index, field="handle", value=True)
    is_cut = False
    for field, question in {**fields.IDENTITY, **fields.READINGS}.items():
        value = _tell(field, functools.partial(question, handle), gpu=index)
        if field == "mig":
            is_cut = bool(value)
    _tell("topology", lambda: [_distance(handle, index, other) for other in indices], gpu=index)
    if is_cut:
        _tell("instances", lambda: instances.instances(handle, ask), gpu=index)


def _distance(handle: Any, index: int, other: int) -> int | None:
    """Return how far another GPU of the machine is in the PCIe tree (0: same board), None where unknown."""
    if other == index:
        return _ON_BOARD
    value, reason = ask(
        lambda: pynvml.nvmlDeviceGetTopologyCommonAncestor(handle, pynvml.nvmlDeviceGetHandleByIndex(other))
    )
    return None if reason else value


def _tell(field: str, question: Callable[[], Any], **about: int) -> Any:
    value, reason = ask(question)
    _say(**about, field=field, **({"missing": reason} if reason else {"value": value}))
    return value


def ask(question: Callable[[], Any]) -> tuple[Any, str]:
    """Return the answer as JSON can hold it and no reason, or None and the reason."""
    try:
        value = question()
    except pynvml.NVMLError as error:
        return None, fields.REASONS.get(error.value, f"nvml_{error.value}")
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "replace"), ""
    except (AttributeError, TypeError, ValueError):
        return None, "function_not_found"  # an older binding lacks the name or its shape
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else value), ""


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:3])
