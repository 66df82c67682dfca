"""Runs as `python -m poolhouse_agent.nvml.child [LIBRARY]`: asks NVML everything once and prints one JSON object."""

import contextlib
import ctypes
import functools
import json
import sys
from collections.abc import Callable
from typing import Any

import pynvml

from poolhouse_agent.nvml import fields

_START_CODES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "nvml_library_missing",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "nvml_driver_not_loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "nvml_library_mismatch",
}
Missing = dict[str, str]


def read(library: str = "") -> dict[str, Any]:
    """Return `{"gpus": […], "errors": […], "driver", "cuda"}`; whatever fails is an error in it."""
    try:
        if library:
            pynvml.nvmlLib = ctypes.CDLL(library)
        pynvml.nvmlInit()
    except OSError as error:
        return _nothing("nvml_library_missing", str(error))
    except pynvml.NVMLError as error:
        return _nothing(_START_CODES.get(error.value, "nvml_error"), str(error))
    try:
        return _read_all()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _read_all() -> dict[str, Any]:
    missing: Missing = {}
    driver = ask("driver", pynvml.nvmlSystemGetDriverVersion, missing) or ""
    cuda = ask("cuda", pynvml.nvmlSystemGetCudaDriverVersion_v2, missing)
    count = ask("count", pynvml.nvmlDeviceGetCount, missing)
    if count is None:
        return _nothing("nvml_error", f"the number of GPUs: {missing['count']}")
    gpus: list[dict[str, Any]] = []
    errors: list[dict[str, str]] = [] if count else [{"code": "no_gpu", "detail": ""}]
    for index in range(count):
        _read_gpu(index, driver, gpus, errors)
    return {"gpus": gpus, "errors": errors, "driver": driver, "cuda": cuda, "missing": missing}


def _read_gpu(index: int, driver: str, gpus: list[dict[str, Any]], errors: list[dict[str, str]]) -> None:
    missing: Missing = {}
    handle = ask("handle", lambda: pynvml.nvmlDeviceGetHandleByIndex(index), missing)
    uuid = ask("uuid", lambda: pynvml.nvmlDeviceGetUUID(handle), missing) if handle is not None else None
    if uuid is None:
        errors.append({"code": _code(missing, "handle", "uuid"), "detail": f"GPU {index}"})
        return
    memory = ask("memory", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total, missing)
    capability = ask("compute_capability", lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle), missing)
    name = ask("name", lambda: pynvml.nvmlDeviceGetName(handle), missing)
    values = {}
    for field, question in fields.QUESTIONS.items():
        value = ask(field, functools.partial(question, handle), missing)
        if value is not None:
            values[field] = value
    gpus.append({
        "uuid": uuid, "index": index, "name": name or "", "memory_bytes": memory, "driver": driver,
        "compute_capability": ".".join(map(str, capability)) if capability else "",
        "values": values, "missing": missing,
    })  # fmt: skip
    errors += _faults(uuid, values, missing)


def _faults(uuid: str, values: dict[str, Any], missing: Missing) -> list[dict[str, str]]:
    found = []
    if lost := fields.LOSSES & set(missing.values()):
        found.append(min(lost))
    if values.get("mig"):
        found.append("mig_enabled")
    if values.get("ecc_uncorrected"):
        found.append("ecc_uncorrected")
    if values.get("remapped_rows", {}).get("failed"):
        found.append("remap_failed")
    return [{"code": code, "detail": uuid} for code in found]


def ask(field: str, question: Callable[[], Any], missing: Missing) -> Any:
    """Return the answer as JSON can hold it, or None with the reason noted under `field`."""
    try:
        value = question()
    except pynvml.NVMLError as error:
        missing[field] = fields.REASONS.get(error.value, f"nvml_{error.value}")
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "replace")
    except (AttributeError, TypeError, ValueError):
        missing[field] = "function_not_found"  # an older binding lacks the name or its shape
    else:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return None


def _code(missing: Missing, *names: str) -> str:
    reason = next((missing[name] for name in names if name in missing), "")
    return reason if reason in fields.LOSSES else "gpu_read_failed"


def _nothing(code: str, detail: str) -> dict[str, Any]:
    return {"gpus": [], "errors": [{"code": code, "detail": detail[:200]}], "driver": "", "cuda": None, "missing": {}}


if __name__ == "__main__":
    json.dump(read(*sys.argv[1:2]), sys.stdout)
