"""Which questions are put to NVML about one GPU, in this order, and what an error of its means."""

from collections.abc import Callable, Mapping
from typing import Any

import pynvml

REASONS: Mapping[int, str] = {
    pynvml.NVML_ERROR_UNINITIALIZED: "uninitialized",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "invalid_argument",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not_supported",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
    pynvml.NVML_ERROR_NOT_FOUND: "gpu_not_found",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "function_not_found",
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu_is_lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "gpu_reset_required",
    pynvml.NVML_ERROR_UNKNOWN: "unknown_error",
}

Question = Callable[[Any], Any]

_SM, _MEMORY = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
_CORRECTED, _UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
_SINCE_LOAD, _EVER = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC
_SLOWDOWN, _SHUTDOWN = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN
_MOST_PROCESSES = 32
_MOST_LINKS = 18


def _call(name: str, *more: Any, pick: int | None = None) -> Question:
    """Return a question with further arguments; `pick` takes one of several answers. Looked up when it is asked."""

    def ask(gpu: Any) -> Any:
        answer = getattr(pynvml, name)(gpu, *more)  # an older binding may lack it
        return answer if pick is None else answer[pick]

    return ask


def _memory(gpu: Any) -> Any:
    return pynvml.nvmlDeviceGetMemoryInfo(gpu)


def _throttle(gpu: Any) -> int:
    """Return the reasons; drivers before 535 know the function by its old name only."""
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    except pynvml.NVMLError_FunctionNotFound:
        return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))


def _links(gpu: Any) -> int:
    """Count the NVLinks that are up; a card without any refuses the first, one with few those after its last."""
    is_up = [pynvml.nvmlDeviceGetNvLinkState(gpu, 0)]
    for link in range(1, _MOST_LINKS):
        try:
            is_up.append(pynvml.nvmlDeviceGetNvLinkState(gpu, link))
        except (pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_NotSupported):
            break
    return sum(is_up)


def _processes(gpu: Any) -> list[dict[str, int | None]]:
    running = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu)
    return [{"pid": one.pid, "memory_bytes": one.usedGpuMemory} for one in running[:_MOST_PROCESSES]]


def _compute_capability(gpu: Any) -> str:
    return ".".join(map(str, pynvml.nvmlDeviceGetCudaComputeCapability(gpu)))


IDENTITY: Mapping[str, Question] = {
    "uuid": _call("nvmlDeviceGetUUID"),
    "name": _call("nvmlDeviceGetName"),
    "memory": lambda gpu: _memory(gpu).total,
    "compute_capability": _compute_capability,
}
READINGS: Mapping[str, Question] = {
    "serial": _call("nvmlDeviceGetSerial"),
    "vbios": _call("nvmlDeviceGetVbiosVersion"),
    "board_id": _call("nvmlDeviceGetBoardId"),
    "bus_id": lambda gpu: pynvml.nvmlDeviceGetPciInfo_v3(gpu).busId,
    "pci_id": lambda gpu: pynvml.nvmlDeviceGetPciInfo_v3(gpu).pciDeviceId,
    "pci_subsystem_id": lambda gpu: pynvml.nvmlDeviceGetPciInfo_v3(gpu).pciSubSystemId,
    "minor_number": _call("nvmlDeviceGetMinorNumber"),
    "architecture": _call("nvmlDeviceGetArchitecture"),
    "cores": _call("nvmlDeviceGetNumGpuCores"),
    "memory_bus_bits": _call("nvmlDeviceGetMemoryBusWidth"),
    "memory_used_bytes": lambda gpu: _memory(gpu).used,
    "memory_free_bytes": lambda gpu: _memory(gpu).free,
    "memory_reserved_bytes": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu, pynvml.nvmlMemory_v2).reserved,
    "bar1_bytes": lambda gpu: pynvml.nvmlDeviceGetBAR1MemoryInfo(gpu).bar1Total,
    "clock_sm_mhz": _call("nvmlDeviceGetClockInfo", _SM),
    "clock_memory_mhz": _call("nvmlDeviceGetClockInfo", _MEMORY),
    "clock_sm_max_mhz": _call("nvmlDeviceGetMaxClockInfo", _SM),
    "clock_memory_max_mhz": _call("nvmlDeviceGetMaxClockInfo", _MEMORY),
    "performance_state": _call("nvmlDeviceGetPerformanceState"),
    "throttle_reasons": _throttle,
    "utilization_percent": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "memory_utilization_percent": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).memory,
    "temperature_c": _call("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
    "temperature_slowdown_c": _call("nvmlDeviceGetTemperatureThreshold", _SLOWDOWN),
    "temperature_shutdown_c": _call("nvmlDeviceGetTemperatureThreshold", _SHUTDOWN),
    "fan_percent": _call("nvmlDeviceGetFanSpeed"),
    "power_mw": _call("nvmlDeviceGetPowerUsage"),
    "power_limit_mw": _call("nvmlDeviceGetEnforcedPowerLimit"),
    "power_default_mw": _call("nvmlDeviceGetPowerManagementDefaultLimit"),
    "power_min_mw": _call("nvmlDeviceGetPowerManagementLimitConstraints", pick=0),
    "power_max_mw": _call("nvmlDeviceGetPowerManagementLimitConstraints", pick=1),
    "energy_mj": _call("nvmlDeviceGetTotalEnergyConsumption"),
    "pcie_generation": _call("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_generation_max": _call("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_width": _call("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_width_max": _call("nvmlDeviceGetMaxPcieLinkWidth"),
    "pcie_replays": _call("nvmlDeviceGetPcieReplayCounter"),
    "nvlinks": _links,
    "ecc_enabled": _call("nvmlDeviceGetEccMode", pick=0),
    "ecc_corrected": _call("nvmlDeviceGetTotalEccErrors", _CORRECTED, _SINCE_LOAD),
    "ecc_uncorrected": _call("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_LOAD),
    "ecc_uncorrected_ever": _call("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _EVER),
    "remapped_corrected": _call("nvmlDeviceGetRemappedRows", pick=0),
    "remapped_uncorrected": _call("nvmlDeviceGetRemappedRows", pick=1),
    "remap_pending": _call("nvmlDeviceGetRemappedRows", pick=2),
    "remap_failed": _call("nvmlDeviceGetRemappedRows", pick=3),
    "page_retirement_pending": _call("nvmlDeviceGetRetiredPagesPendingStatus"),
    "mig": _call("nvmlDeviceGetMigMode", pick=0),
    "virtualization": _call("nvmlDeviceGetVirtualizationMode"),
    "compute_mode": _call("nvmlDeviceGetComputeMode"),
    "persistence_mode": _call("nvmlDeviceGetPersistenceMode"),
    "display_active": _call("nvmlDeviceGetDisplayActive"),
    "processes": _processes,
}  # fmt: skip
