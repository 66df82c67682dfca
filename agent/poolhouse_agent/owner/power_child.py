"""Runs as `python -m poolhouse_agent.owner.power_child LIBRARY UUID=MILLIWATT…`: sets power limits, prints what became.

LIBRARY is `-` for the system's own; UUID `*` means every GPU. One JSON list comes out, an entry a GPU.
"""

import contextlib
import ctypes
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pynvml

_START_CODES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "nvml_library_missing",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "nvml_driver_not_loaded",
}
_CODES = {
    pynvml.NVML_ERROR_NO_PERMISSION: "power_cap_not_permitted",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "power_cap_unsupported",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "power_cap_out_of_range",
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu_is_lost",
    pynvml.NVML_ERROR_NOT_FOUND: "gpu_not_found",
}


def set_limits(library: str, wanted: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Set each limit; an entry has `uuid`, `before_mw`, `now_mw`, `code` (empty where it was set) and `detail`."""
    try:
        if library != "-":
            pynvml.nvmlLib = ctypes.CDLL(library)
        pynvml.nvmlInit()
    except OSError as error:
        return [_entry("", code="nvml_library_missing", detail=str(error))]
    except pynvml.NVMLError as error:
        return [_entry("", code=_START_CODES.get(error.value, "nvml_error"), detail=str(error))]
    try:
        return [_set(uuid, limit_mw) for uuid, limit_mw in _each(wanted)]
    except pynvml.NVMLError as error:
        return [_entry("", code="nvml_error", detail=str(error))]
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _each(wanted: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    for uuid, limit_mw in wanted:
        if uuid != "*":
            yield uuid, limit_mw
            continue
        for index in range(pynvml.nvmlDeviceGetCount()):
            found = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index))
            yield found.decode() if isinstance(found, bytes) else found, limit_mw


def _set(uuid: str, limit_mw: int) -> dict[str, Any]:
    before: int | None = None
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        before = pynvml.nvmlDeviceGetPowerManagementLimit(handle)
        low, high = pynvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
        if not low <= limit_mw <= high:
            detail = f"this GPU takes {low // 1000} to {high // 1000} W"
            return _entry(uuid, before=before, code="power_cap_out_of_range", detail=detail)
        if before != limit_mw:
            pynvml.nvmlDeviceSetPowerManagementLimit(handle, limit_mw)
        now = pynvml.nvmlDeviceGetPowerManagementLimit(handle)
    except pynvml.NVMLError as error:
        return _entry(uuid, before=before, code=_CODES.get(error.value, "power_cap_failed"), detail=str(error))
    if now != limit_mw:
        return _entry(uuid, before=before, now=now, code="power_cap_failed", detail=f"the limit is {now // 1000} W now")
    return _entry(uuid, before=before, now=now)


def _entry(
    uuid: str, *, before: int | None = None, now: int | None = None, code: str = "", detail: str = ""
) -> dict[str, Any]:
    return {"uuid": uuid, "before_mw": before, "now_mw": now, "code": code, "detail": detail[:200]}


def _asked(words: Sequence[str]) -> list[tuple[str, int]]:
    return [(uuid, int(limit)) for uuid, _, limit in (word.partition("=") for word in words)]


if __name__ == "__main__":
    json.dump(set_limits(sys.argv[1], _asked(sys.argv[2:])), sys.stdout)
