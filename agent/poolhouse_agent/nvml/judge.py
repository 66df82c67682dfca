"""What the answers amount to: the report of each GPU, its faults, and what kind of machine cannot serve yet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from poolhouse_common.gpu_faults import LOSSES, OLDEST_CAPABILITY, XIDS

from poolhouse_agent.nvml.answers import Answers, GpuAnswers
from poolhouse_agent.probes.surroundings import Machine

# Parts that share the machine's memory and have no memory of their own to report.
_UNIFIED = ("GB10",)
_EMBEDDED = ("orin", "xavier", "tegra", "thor", "nvgpu", "jetson")
_PROHIBITED = 2
_APART = frozenset({"handle", "uuid", "name", "memory", "compute_capability", "instances"})
Fault = dict[str, str]


@dataclass(frozen=True, slots=True)
class Around:
    """What NVML cannot know: the machine, which UUID each index had, and the Xids that were heard."""

    machine: Machine = field(default_factory=Machine)
    seen: Mapping[int, str] = field(default_factory=dict)
    xids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    xids_missing: str = ""


def gpus(answers: Answers, around: Around) -> tuple[list[dict[str, Any]], list[Fault]]:
    """Return the report of every GPU that has a UUID, and the faults of all of them."""
    reports, faults = [], []
    driver = str(answers.system.get("driver") or "")
    for index, one in sorted(answers.gpus.items()):
        if not one.uuid:
            faults.append(_unnamed(one, around, index))
            continue
        report = _report(one, around, driver)
        reports.append(report)
        faults += [{"code": code, "detail": one.uuid} for code in _faults(report, around)]
    return reports, faults


def library(code: str, detail: str, around: Around) -> Fault:
    """Return the fault of a library that cannot be used, in the words of where this runs."""
    if around.machine.container and code == "unknown_error":
        code = "nvml_lost_in_container"
    elif around.machine.container and code == "nvml_library_missing" and around.machine.module:
        code = "container_without_gpu"
    elif code == "unknown_error":
        code = "nvml_error"
    if code == "nvml_library_mismatch" and around.machine.module:
        detail = f"{detail.rstrip('.')}; the loaded module is {around.machine.module}"
    return {"code": code, "detail": detail[:200]}


def _unnamed(one: GpuAnswers, around: Around, index: int) -> Fault:
    """A GPU that did not even say its UUID; where it was seen earlier it is named by that."""
    if _is_embedded(str(one.values.get("name", "")), around):
        return {"code": "jetson_unsupported", "detail": str(one.values.get("name", "")) or f"GPU {index}"}
    reason = one.missing.get("handle") or one.missing.get("uuid") or ""
    code = reason if reason in LOSSES | {"gpu_hung"} else "gpu_read_failed"
    return {"code": code, "detail": around.seen.get(index) or f"GPU {index}"}


def _report(one: GpuAnswers, around: Around, driver: str) -> dict[str, Any]:
    values = {name: value for name, value in one.values.items() if name not in _APART}
    missing = {name: reason for name, reason in one.missing.items() if name != "handle"}
    if missing.get("instances") == "not_asked" and not values.get("mig"):
        del missing["instances"]
    name, memory = str(one.values.get("name") or ""), one.values.get("memory")
    values["unified"] = any(part in name for part in _UNIFIED) and missing.get("memory") == "not_supported"
    if values["unified"] and around.machine.memory_bytes:
        memory = around.machine.memory_bytes
        del missing["memory"]
    if around.xids_missing:
        missing["xids"] = around.xids_missing
    else:
        values["xids"] = list(around.xids.get(one.uuid, ()))
    return {
        "uuid": one.uuid, "index": one.index, "name": name, "memory_bytes": memory, "driver": driver,
        "compute_capability": str(one.values.get("compute_capability") or ""), "values": values, "missing": missing,
        "instances": one.values.get("instances") or [],
    }  # fmt: skip


def _faults(gpu: Mapping[str, Any], around: Around) -> list[str]:
    values, missing = gpu["values"], gpu["missing"]
    reasons = set(missing.values())
    found = [min(lost)] if (lost := LOSSES & reasons) else []
    found += ["gpu_hung"] if "gpu_hung" in reasons else []
    found += [code for code, is_so in _KINDS.items() if is_so(gpu, around)]
    found += ["ecc_uncorrected"] if values.get("ecc_uncorrected") else []
    found += ["remap_failed"] if values.get("remap_failed") else []
    found += ["remap_pending"] if values.get("remap_pending") or values.get("page_retirement_pending") else []
    found += sorted({XIDS[xid] for xid in values.get("xids", ()) if xid in XIDS})
    return list(dict.fromkeys(found))


def _is_embedded(name: str, around: Around) -> bool:
    return around.machine.is_jetson or any(part in name.lower() for part in _EMBEDDED)


def _has_no_memory(gpu: Mapping[str, Any], around: Around) -> bool:
    """A card with memory of its own that will not say how much."""
    known = gpu["missing"].get("memory", "")
    return known not in {"", "not_asked", "gpu_hung"} | LOSSES and not (
        gpu["values"]["unified"] or _is_embedded(gpu["name"], around)
    )


_KINDS: Mapping[str, Callable[[Mapping[str, Any], Around], bool]] = {
    "jetson_unsupported": lambda gpu, around: _is_embedded(gpu["name"], around),
    "wsl": lambda _gpu, around: around.machine.is_wsl,
    "unified_memory_unsupported": lambda gpu, _around: bool(gpu["values"]["unified"]),
    "mig_enabled": lambda gpu, _around: bool(gpu["values"].get("mig")),
    "compute_capability_too_low": lambda gpu, _around: (
        bool(gpu["compute_capability"]) and float(gpu["compute_capability"]) < OLDEST_CAPABILITY
    ),
    "gpu_memory_unreadable": _has_no_memory,
    "compute_prohibited": lambda gpu, _around: gpu["values"].get("compute_mode") == _PROHIBITED,
}
