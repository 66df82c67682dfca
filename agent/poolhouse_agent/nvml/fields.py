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


def _plain(name: str) -> Callable[[Any], Any]:
    """A question without arguments, looked up when it is asked: an older binding may lack it."""
    return lambda gpu: getattr(pynvml, name)(gpu)  # noqa: PLW0108  looked up late, on purpose


QUESTIONS: Mapping[str, Callable[[Any], Any]] = {
    "serial": _plain("nvmlDeviceGetSerial"),
    "vbios": _plain("nvmlDeviceGetVbiosVersion"),
    "bus_id": lambda gpu: pynvml.nvmlDeviceGetPciInfo_v3(gpu).busId,
    "pci_id": lambda gpu: pynvml.nvmlDeviceGetPciInfo_v3(gpu).pciDeviceId,
    "memory_used_bytes": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).used,
    "bar1_bytes": lambda gpu: pynvml.nvmlDeviceGetBAR1MemoryInfo(gpu).bar1Total,
    "cores": _plain("nvmlDeviceGetNumGpuCores"),
    "memory_bus_bits": _plain("nvmlDeviceGetMemoryBusWidth"),
    "clock_sm_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, _SM),
    "clock_memory_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, _MEMORY),
    "clock_sm_max_mhz": lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, _SM),
    "clock_memory_max_mhz": lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, _MEMORY),
    "utilization_percent": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "temperature_c": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
    "power_mw": _plain("nvmlDeviceGetPowerUsage"),
    "power_limit_mw": _plain("nvmlDeviceGetEnforcedPowerLimit"),
    "power_default_mw": _plain("nvmlDeviceGetPowerManagementDefaultLimit"),
    "throttle_reasons": _plain("nvmlDeviceGetCurrentClocksThrottleReasons"),
    "pcie_generation": _plain("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_generation_max": _plain("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_width": _plain("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_width_max": _plain("nvmlDeviceGetMaxPcieLinkWidth"),
    "pcie_replays": _plain("nvmlDeviceGetPcieReplayCounter"),
    "ecc_enabled": lambda gpu: pynvml.nvmlDeviceGetEccMode(gpu)[0],
    "ecc_uncorrected": lambda gpu: pynvml.nvmlDeviceGetTotalEccErrors(gpu, _UNCORRECTED, _VOLATILE),
    "remapped_rows": _remapped,
    "mig": lambda gpu: pynvml.nvmlDeviceGetMigMode(gpu)[0],
    "virtualization": _plain("nvmlDeviceGetVirtualizationMode"),
    "nvlinks": _links,
    "processes": _processes,
}  # fmt: skip
