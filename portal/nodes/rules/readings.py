"""What a node may say of its hardware: known readings, of their type, within what such hardware can have.

A stranger sends them. What is unknown is left out, what cannot be is kept as `implausible`, never as the number.
Bounds are far outside today's hardware, so that next year's card is no liar.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_REASON: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
_LONGEST: Final = 96
_MOST_ITEMS: Final = 64
IMPLAUSIBLE: Final = "implausible"
MAX_MEMORY_BYTES: Final = 1 << 43  # 8 TiB on one GPU


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from `low` to `high`."""

    high: int
    low: int = 0

    def accepts(self, value: object) -> bool:
        """Tell whether the value can be."""
        return type(value) is int and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Number:
    """A number from 0 to `high`."""

    high: float

    def accepts(self, value: object) -> bool:
        """Tell whether the value can be."""
        return type(value) in {int, float} and 0 <= float(str(value)) <= self.high


@dataclass(frozen=True, slots=True)
class Words:
    """A short printable text."""

    longest: int = _LONGEST

    def accepts(self, value: object) -> bool:
        """Tell whether the value can be."""
        return isinstance(value, str) and 0 < len(value) <= self.longest and value.isprintable()


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no, as NVML (0, 1) or JSON has it."""

    def accepts(self, value: object) -> bool:
        """Tell whether the value can be."""
        return isinstance(value, bool) or value in (0, 1)


@dataclass(frozen=True, slots=True)
class Wholes:
    """A short list of whole numbers, or of None where one is unknown."""

    high: int

    def accepts(self, value: object) -> bool:
        """Tell whether the value can be."""
        if not isinstance(value, list) or len(value) > _MOST_ITEMS:
            return False
        return all(item is None or (type(item) is int and 0 <= item <= self.high) for item in value)


Kind = Whole | Number | Words | Flag | Wholes

_BYTES: Final = Whole(1 << 50)
_COUNTER: Final = Whole((1 << 63) - 1)
_MHZ: Final = Whole(100_000)
_MILLIWATTS: Final = Whole(20_000_000)
_CELSIUS: Final = Whole(250)
_PERCENT: Final = Whole(100)
_ENUM: Final = Whole(1 << 16)

GPU: Final[Mapping[str, Kind]] = {
    "serial": Words(32), "vbios": Words(32), "board_id": Whole(1 << 32), "bus_id": Words(32),
    "pci_id": Whole(1 << 32), "pci_subsystem_id": Whole(1 << 32), "minor_number": Whole(255),
    "architecture": _ENUM, "cores": Whole(1_000_000), "memory_bus_bits": Whole(65_536),
    "memory_used_bytes": _BYTES, "memory_free_bytes": _BYTES, "memory_reserved_bytes": _BYTES, "bar1_bytes": _BYTES,
    "clock_sm_mhz": _MHZ, "clock_memory_mhz": _MHZ, "clock_sm_max_mhz": _MHZ, "clock_memory_max_mhz": _MHZ,
    "performance_state": Whole(32), "throttle_reasons": _COUNTER,
    "utilization_percent": _PERCENT, "memory_utilization_percent": _PERCENT,
    "temperature_c": _CELSIUS, "temperature_slowdown_c": _CELSIUS, "temperature_shutdown_c": _CELSIUS,
    "fan_percent": Whole(200),
    "power_mw": _MILLIWATTS, "power_limit_mw": _MILLIWATTS, "power_default_mw": _MILLIWATTS,
    "power_min_mw": _MILLIWATTS, "power_max_mw": _MILLIWATTS, "energy_mj": _COUNTER,
    "pcie_generation": Whole(16), "pcie_generation_max": Whole(16), "pcie_width": Whole(64),
    "pcie_width_max": Whole(64), "pcie_replays": _COUNTER, "nvlinks": Whole(64),
    "ecc_enabled": Flag(), "ecc_corrected": _COUNTER, "ecc_uncorrected": _COUNTER, "ecc_uncorrected_ever": _COUNTER,
    "remapped_corrected": Whole(1 << 20), "remapped_uncorrected": Whole(1 << 20),
    "remap_pending": Flag(), "remap_failed": Flag(), "page_retirement_pending": Flag(),
    "mig": Flag(), "virtualization": _ENUM, "compute_mode": _ENUM, "persistence_mode": Flag(),
    "display_active": Flag(), "process_count": Whole(10_000), "topology": Wholes(1_000),
    "unified": Flag(), "xids": Wholes(100_000),
}  # fmt: skip
# Fields of a GPU that have a place of their own in the message; here only a reason can stand.
GPU_REASONS: Final = frozenset({"name", "memory", "compute_capability", "instances"})
HOST: Final[Mapping[str, Kind]] = {
    "os": Words(), "kernel": Words(), "architecture": Words(32), "product": Words(), "host_id": Words(64),
    "boot_id": Words(64), "uptime_s": _COUNTER, "virtualization": Words(32), "container": Words(32),
    "driver_module": Words(32), "driver_module_kind": Words(32), "gpu_devices": Whole(255),
    "cpu_model": Words(), "cpu_count": Whole(65_536), "cpu_cores": Whole(65_536), "cpu_sockets": Whole(256),
    "cpu_limit_milli": Whole(65_536_000), "numa_nodes": Whole(1_024), "load_1m": Number(1_000_000.0),
    "memory_bytes": _BYTES, "memory_available_bytes": _BYTES, "memory_limit_bytes": _COUNTER, "swap_bytes": _BYTES,
    "swap_free_bytes": _BYTES, "shared_memory_bytes": _BYTES, "lockable_bytes": _COUNTER,
    "disk_bytes": _COUNTER, "disk_free_bytes": _COUNTER, "disk_kind": Words(32), "disk_file_system": Words(32),
    "network_interface": Words(32), "network_kind": Words(32), "network_speed_mbits": Whole(10_000_000),
    "network_mtu": Whole(1 << 20), "network_received_bytes": _COUNTER, "network_sent_bytes": _COUNTER,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings that can be, and why the others are missing; a name stands in one of the two at most."""

    values: dict[str, object]
    missing: dict[str, str]


def gpu(values: Mapping[str, object], missing: Mapping[str, object]) -> Readings:
    """Return what can be kept of a GPU's readings."""
    kept = _kept(GPU, values, missing)
    reasons = {name: missing[name] for name in GPU_REASONS if name in missing}
    kept.missing.update({name: str(reason) for name, reason in reasons.items() if _is_reason(reason)})
    return kept


def host(values: Mapping[str, object], missing: Mapping[str, object]) -> Readings:
    """Return what can be kept of a machine's readings."""
    return _kept(HOST, values, missing)


def _kept(known: Mapping[str, Kind], values: Mapping[str, object], missing: Mapping[str, object]) -> Readings:
    kept = Readings({}, {})
    for name, kind in known.items():
        value, reason = values.get(name), missing.get(name)
        if value is not None:
            if kind.accepts(value):
                kept.values[name] = value
            else:
                kept.missing[name] = IMPLAUSIBLE
        elif _is_reason(reason):
            kept.missing[name] = str(reason)
    return kept


def _is_reason(reason: object) -> bool:
    return isinstance(reason, str) and _REASON.fullmatch(reason) is not None
