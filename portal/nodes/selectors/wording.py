"""How a reading of a machine or a GPU is called and written."""

from collections.abc import Callable, Mapping

GPU: Mapping[str, Mapping[str, str]] = {
    "Identity": {
        "serial": "Serial number", "vbios": "VBIOS", "board_id": "Board", "bus_id": "PCI address",
        "pci_id": "PCI device", "pci_subsystem_id": "PCI subsystem", "minor_number": "Device number",
        "architecture": "Architecture", "cores": "CUDA cores", "memory_bus_bits": "Memory bus",
    },
    "Memory": {
        "memory_used_bytes": "Used", "memory_free_bytes": "Free", "memory_reserved_bytes": "Kept by the driver",
        "bar1_bytes": "BAR1", "unified": "Shared with the processor", "process_count": "Processes",
    },
    "Clocks and load": {
        "clock_sm_mhz": "Clock", "clock_sm_max_mhz": "Clock at most", "clock_memory_mhz": "Memory clock",
        "clock_memory_max_mhz": "Memory clock at most", "performance_state": "Performance state",
        "throttle_reasons": "Held back by", "utilization_percent": "Load",
        "memory_utilization_percent": "Memory load",
    },
    "Heat and power": {
        "temperature_c": "Temperature", "temperature_slowdown_c": "Slows down at",
        "temperature_shutdown_c": "Shuts down at", "fan_percent": "Fan", "power_mw": "Power",
        "power_limit_mw": "Power limit", "power_default_mw": "Usual limit", "power_min_mw": "Lowest limit",
        "power_max_mw": "Highest limit", "energy_mj": "Energy since the driver was loaded",
    },
    "Links": {
        "pcie_generation": "PCIe generation", "pcie_generation_max": "PCIe generation at most",
        "pcie_width": "PCIe lanes", "pcie_width_max": "PCIe lanes at most", "pcie_replays": "PCIe replays",
        "nvlinks": "NVLinks up", "topology": "Ways to the other GPUs",
    },
    "Errors": {
        "ecc_enabled": "ECC", "ecc_corrected": "Corrected errors", "ecc_uncorrected": "Uncorrected errors",
        "ecc_uncorrected_ever": "Uncorrected errors ever", "remapped_corrected": "Rows replaced after corrected errors",
        "remapped_uncorrected": "Rows replaced after uncorrected errors", "remap_pending": "A row waits to be replaced",
        "remap_failed": "A row could not be replaced", "page_retirement_pending": "A page waits to be retired",
        "xids": "Xid errors since the agent started",
    },
    "Use": {
        "mig": "Partitioned (MIG)", "virtualization": "Virtualization", "compute_mode": "Compute mode",
        "persistence_mode": "Persistence mode", "display_active": "A display is attached",
    },
}  # fmt: skip
HOST: Mapping[str, Mapping[str, str]] = {
    "System": {
        "os": "System", "kernel": "Kernel", "architecture": "Architecture", "product": "Machine",
        "virtualization": "Hypervisor", "container": "Container", "driver_module": "Loaded driver module",
        "driver_module_kind": "Kind of module", "gpu_devices": "GPUs the kernel shows", "uptime_s": "Up for",
        "host_id": "Installation",
        "boot_id": "Boot",
    },
    "Processor": {
        "cpu_model": "Processor", "cpu_sockets": "Sockets", "cpu_cores": "Cores", "cpu_count": "Threads to use",
        "cpu_limit_milli": "Limit", "numa_nodes": "NUMA nodes", "load_1m": "Load, 1 minute",
    },
    "Memory": {
        "memory_bytes": "Memory", "memory_available_bytes": "Available", "memory_limit_bytes": "Limit",
        "swap_bytes": "Swap", "swap_free_bytes": "Swap free", "shared_memory_bytes": "Shared memory (/dev/shm)",
        "lockable_bytes": "May be locked",
    },
    "Disk": {
        "disk_bytes": "Disk", "disk_free_bytes": "Free", "disk_kind": "Kind", "disk_file_system": "File system",
    },
    "Network": {
        "network_interface": "Interface", "network_kind": "Kind", "network_speed_mbits": "Link speed",
        "network_mtu": "MTU", "network_received_bytes": "Received", "network_sent_bytes": "Sent",
    },
}  # fmt: skip
_THROTTLE = {
    0x1: "idle", 0x2: "set clocks", 0x4: "power cap", 0x8: "hardware", 0x10: "sync boost", 0x20: "heat (driver)",
    0x40: "heat (hardware)", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip
_VIRTUAL = {0: "none", 1: "passed through whole", 2: "a share of a card (vGPU)", 3: "vGPU host", 4: "vSGA host"}
_COMPUTE = {0: "default", 1: "one thread", 2: "prohibited", 3: "one process"}
_ARCHITECTURES = {
    2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada", 9: "Hopper",
    10: "Blackwell",
}  # fmt: skip
_WAYS = {
    0: "same board",
    10: "one switch",
    20: "several switches",
    30: "host bridge",
    40: "same NUMA node",
    50: "system",
}
_HEX = frozenset({"pci_id", "pci_subsystem_id", "board_id"})
_FLAGS = frozenset({
    "unified", "ecc_enabled", "remap_pending", "remap_failed", "page_retirement_pending", "mig", "persistence_mode",
    "display_active",
})  # fmt: skip
_GIB, _HOUR_S, _DAY_S = 1 << 30, 3600, 86_400


def text(name: str, values: Mapping[str, object]) -> str:
    """Write a reading with its unit, an empty text where it is not among the values."""
    value = values.get(name)
    if value is None:
        return ""
    if name in _FLAGS:
        return "yes" if value else "no"
    if name in _WORDS:
        return _WORDS[name](value)
    if isinstance(value, str):
        return value
    return _number(name, value)


def _number(name: str, value: object) -> str:
    if not isinstance(value, int | float):
        return str(value)
    if name in _HEX:
        return f"0x{int(value):x}"
    for ending, write in _UNITS.items():
        if name.endswith(ending):
            return write(value)
    return f"{value:g}" if isinstance(value, float) else f"{value:,}"


_UNITS: Mapping[str, Callable[[float], str]] = {
    "_bytes": lambda value: f"{value / _GIB:,.1f} GiB",
    "_mhz": lambda value: f"{value:,} MHz",
    "_mbits": lambda value: f"{value:,} Mbit/s",
    "_bits": lambda value: f"{value:,} bit",
    "_percent": lambda value: f"{value} %",
    "_mw": lambda value: f"{value / 1000:,.0f} W",
    "_mj": lambda value: f"{value / 3_600_000_000:,.2f} kWh",
    "_c": lambda value: f"{value} °C",
    "_milli": lambda value: f"{value / 1000:g} processors",
    "uptime_s": lambda value: f"{value / _DAY_S:.1f} days" if value >= _DAY_S else f"{value / _HOUR_S:.1f} hours",
}


def _one_of(names: Mapping[int, str]) -> Callable[[object], str]:
    """Write a number by its name; one that is not known passes as it is."""
    return lambda value: names.get(value, f"{value}") if isinstance(value, int) else str(value)


def _throttle(value: object) -> str:
    if not isinstance(value, int):
        return str(value)
    if not value:
        return "nothing"
    left = value
    found = []
    for bit, name in _THROTTLE.items():
        if value & bit:
            found.append(name)
            left &= ~bit
    return ", ".join([*found, f"0x{left:x}"] if left else found)


def _list(value: object) -> str:
    return (", ".join(str(item) for item in value) if value else "none") if isinstance(value, list) else str(value)


def _ways(value: object) -> str:
    if not isinstance(value, list):
        return str(value)
    others = [f"GPU {at}: {_WAYS.get(way, way)}" for at, way in enumerate(value) if way != 0 and way is not None]
    unknown = [f"GPU {at}: unknown" for at, way in enumerate(value) if way is None]
    return ", ".join([*others, *unknown]) or "no other GPU"


_WORDS: Mapping[str, Callable[[object], str]] = {
    "throttle_reasons": _throttle,
    "virtualization": _one_of(_VIRTUAL),
    "compute_mode": _one_of(_COMPUTE),
    "architecture": _one_of(_ARCHITECTURES),
    "performance_state": lambda value: f"P{value}",
    "xids": _list,
    "topology": _ways,
    "pcie_width": lambda value: f"x{value}",
    "pcie_width_max": lambda value: f"x{value}",
}
