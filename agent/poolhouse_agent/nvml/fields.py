"""Which questions are put to NVML about one GPU, and what an error of its means."""

from collections.abc import Callable, Mapping
from typing import Any

import pynvml

REASONS: Mapping[int, str] = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not_supported",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
    pynvml.NVML_ERROR_NOT_FOUND: "gpu_not_found",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "function_not_found",
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu_is_lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "gpu_reset_required",
}
LOSSES = frozenset({"gpu_is_lost", "gpu_reset_required", "gpu_not_found"})

_SM, _MEMORY = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
_UNCORRECTED, _VOLATILE = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC


def _remapped(handle: Any) -> dict[str, int]:
    corrected, uncorrected, is_pending, has_failed = pynvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "corrected": corrected, "uncorrected": uncorrected, "pending": int(is_pending), "failed": int(has_failed),
    }  # fmt: skip


def _links(handle: Any) -> int:
    return sum(pynvml.nvmlDeviceGetNvLinkState(handle, link) for link in range(18))


def _processes(handle: Any) -> list[dict[str, int | None]]:
    running = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    return [{"pid": one.pid, "memory_bytes": one.usedGpuMemory} for one in running[:32]]


QUESTIONS: Mapping[str, Callable[[Any], Any]] = {
    "serial": lambda gpu: pynvml.nvmlDeviceGetSerial(gpu),
    "vbios": lambda gpu: pynvml.nvmlDeviceGetVbiosVersion(gpu),
    "bus_id": lambda gpu: pynvml.nvmlDeviceGetPciInfo_v3(gpu).busId,
    "pci_id": lambda gpu: pynvml.nvmlDeviceGetPciInfo_v3(gpu).pciDeviceId,
    "memory_used_bytes": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).used,
    "bar1_bytes": lambda gpu: pynvml.nvmlDeviceGetBAR1MemoryInfo(gpu).bar1Total,
    "cores": lambda gpu: pynvml.nvmlDeviceGetNumGpuCores(gpu),
    "memory_bus_bits": lambda gpu: pynvml.nvmlDeviceGetMemoryBusWidth(gpu),
    "clock_sm_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, _SM),
    "clock_memory_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, _MEMORY),
    "clock_sm_max_mhz": lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, _SM),
    "clock_memory_max_mhz": lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, _MEMORY),
    "utilization_percent": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "temperature_c": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
    "power_mw": lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu),
    "power_limit_mw": lambda gpu: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
    "power_default_mw": lambda gpu: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu),
    "throttle_reasons": lambda gpu: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
    "pcie_generation": lambda gpu: pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
    "pcie_generation_max": lambda gpu: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
    "pcie_width": lambda gpu: pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),
    "pcie_width_max": lambda gpu: pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
    "pcie_replays": lambda gpu: pynvml.nvmlDeviceGetPcieReplayCounter(gpu),
    "ecc_enabled": lambda gpu: pynvml.nvmlDeviceGetEccMode(gpu)[0],
    "ecc_uncorrected": lambda gpu: pynvml.nvmlDeviceGetTotalEccErrors(gpu, _UNCORRECTED, _VOLATILE),
    "remapped_rows": _remapped,
    "mig": lambda gpu: pynvml.nvmlDeviceGetMigMode(gpu)[0],
    "virtualization": lambda gpu: pynvml.nvmlDeviceGetVirtualizationMode(gpu),
    "nvlinks": _links,
    "processes": _processes,
}  # fmt: skip
