"""Checks of the GPUs and of the library that reports them."""

from typing import Any

from poolhouse_common import gpu_faults

from poolhouse_agent.checks.result import Result, Status, Surroundings, ok, trouble

_FAILING = (gpu_faults.UNFIT | gpu_faults.LIBRARY | {"no_gpu"}) - {"nvml_library_mismatch"}
_BUSY_SHARE = 0.10


async def gpus(around: Surroundings) -> list[Result]:
    """Every GPU that can be read, and every error on the way."""
    report = around.gpus
    results = [
        trouble("gpu", Status.FAIL if error["code"] in _FAILING else Status.WARN, error["code"], error["detail"])
        for error in report.errors
    ]
    faulty = {error["detail"] for error in report.errors}
    for gpu in report.gpus:
        results += _look_at(gpu, has_fault=gpu["uuid"] in faulty)
    if report.gpus:
        results.append(ok("gpu.driver", f"driver {report.driver}, CUDA {_cuda(report.cuda)}", driver=report.driver))
    return results


def _look_at(gpu: dict[str, Any], *, has_fault: bool) -> list[Result]:
    name, uuid, values = gpu["name"], gpu["uuid"], gpu["values"]
    evidence = {"uuid": uuid, "memory_bytes": gpu["memory_bytes"], "values": values, "missing": gpu["missing"]}
    found = [trouble("gpu", Status.WARN, code, f"{name} {uuid}", **evidence) for code in gpu_faults.notes(values)]
    if values.get("memory_used_bytes", 0) > _BUSY_SHARE * (gpu["memory_bytes"] or 1):
        found.append(trouble("gpu", Status.WARN, "gpu_memory_in_use", f"{name} {uuid}", **evidence))
    if found or has_fault:
        return found
    size = f", {gpu['memory_bytes'] / (1 << 30):.0f} GiB" if gpu["memory_bytes"] else ""
    return [ok("gpu", f"{name}{size}", **evidence)]


def _cuda(version: int | None) -> str:
    return f"{version // 1000}.{version % 1000 // 10}" if version else "unknown"
