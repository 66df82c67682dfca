"""Checks of the GPUs and of the library that reports them."""

from typing import Any

from poolhouse_agent.checks.result import Result, Status, Surroundings, ok, trouble

_WARNINGS = frozenset({"nvml_library_mismatch", "ecc_uncorrected"})
_HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
_OLDEST_CAPABILITY = 7.5
_BUSY_SHARE = 0.10


async def gpus(around: Surroundings) -> list[Result]:
    """Every GPU that can be read, and every error on the way."""
    report = around.gpus
    results = [
        trouble("gpu", Status.WARN if error["code"] in _WARNINGS else Status.FAIL, error["code"], error["detail"])
        for error in report.errors
    ]
    for gpu in report.gpus:
        results += _look_at(gpu)
    if report.gpus:
        results.append(ok("gpu.driver", f"driver {report.driver}, CUDA {_cuda(report.cuda)}", driver=report.driver))
    return results


def _look_at(gpu: dict[str, Any]) -> list[Result]:
    name, uuid, values = gpu["name"], gpu["uuid"], gpu["values"]
    evidence = {"uuid": uuid, "memory_bytes": gpu["memory_bytes"], "values": values, "missing": gpu["missing"]}
    found = [trouble("gpu", status, code, f"{name} {uuid}", **evidence) for status, code in _warnings(gpu)]
    size = f", {gpu['memory_bytes'] / (1 << 30):.0f} GiB" if gpu["memory_bytes"] else ""
    return found or [ok("gpu", f"{name}{size}", **evidence)]


def _warnings(gpu: dict[str, Any]) -> list[tuple[Status, str]]:
    values, missing = gpu["values"], gpu["missing"]
    throttle = int(values.get("throttle_reasons", 0))
    found = []
    if throttle & (_HW_SLOWDOWN | _HW_THERMAL | _SW_THERMAL):
        found.append((Status.WARN, "thermal_slowdown"))
    if throttle & _POWER_BRAKE:
        found.append((Status.WARN, "power_brake"))
    if missing.get("memory") == "not_supported":
        found.append((Status.FAIL, "integrated_gpu"))
    elif values.get("memory_used_bytes", 0) > _BUSY_SHARE * (gpu["memory_bytes"] or 1):
        found.append((Status.WARN, "gpu_memory_in_use"))
    if gpu["compute_capability"] and float(gpu["compute_capability"]) < _OLDEST_CAPABILITY:
        found.append((Status.FAIL, "compute_capability_too_low"))
    return found


def _cuda(version: int | None) -> str:
    return f"{version // 1000}.{version % 1000 // 10}" if version else "unknown"
