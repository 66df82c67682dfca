"""What a fault of a GPU means: whether the GPU, or the whole library, is out of use. Agent and portal read the same."""

from collections.abc import Mapping

# The machine's kind cannot serve yet, whatever its owner does: said when it joins, not only when it is to serve.
REFUSALS = frozenset({
    "mig_enabled", "unified_memory_unsupported", "jetson_unsupported", "wsl", "compute_capability_too_low",
})  # fmt: skip
# The driver no longer has the GPU.
LOSSES = frozenset({"gpu_is_lost", "gpu_reset_required", "gpu_not_found"})
# No new work may be given to a GPU with one of these.
UNFIT = (
    REFUSALS
    | LOSSES
    | frozenset({
        "compute_prohibited", "ecc_uncorrected", "gpu_hung", "gpu_memory_unreadable", "gpu_read_failed", "gsp_failed",
        "remap_failed",
    })
)  # fmt: skip
# Nothing can be said of any GPU at the moment. Work that runs may go on: what was known before is out of date only.
LIBRARY = frozenset({
    "container_without_gpu", "nvml_crashed", "nvml_driver_not_loaded", "nvml_error", "nvml_hung",
    "nvml_library_mismatch", "nvml_library_missing", "nvml_lost_in_container",
})  # fmt: skip
# Serious Xid codes and the fault they stand for; the others come from the software that uses the GPU.
XIDS = {
    48: "ecc_uncorrected", 63: "remap_pending", 64: "remap_failed", 74: "nvlink_failed", 79: "gpu_is_lost",
    92: "ecc_corrected_often", 94: "ecc_uncorrected", 95: "ecc_uncorrected", 119: "gsp_failed", 120: "gsp_failed",
    140: "ecc_uncorrected",
}  # fmt: skip
OLDEST_CAPABILITY = 7.5

_VGPU = 2
_HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 0x8, 0x20, 0x40, 0x80


def notes(values: Mapping[str, object]) -> tuple[str, ...]:
    """Return what the owner should know of a GPU that may serve all the same, from its readings."""
    throttle = _number(values, "throttle_reasons")
    found = {
        "thermal_slowdown": bool(throttle & (_HW_SLOWDOWN | _HW_THERMAL | _SW_THERMAL)),
        "power_brake": bool(throttle & _POWER_BRAKE),
        "vgpu": _number(values, "virtualization") == _VGPU,
        "power_capped": 0 < _number(values, "power_limit_mw") < _number(values, "power_default_mw"),
        "pcie_narrow": 0 < _number(values, "pcie_width") < _number(values, "pcie_width_max"),
    }
    return tuple(code for code, is_so in found.items() if is_so)


def _number(values: Mapping[str, object], name: str) -> int:
    """Return a reading, 0 where there is none: no note is made of what is not known."""
    value = values.get(name)
    return value if isinstance(value, int) else 0
