"""GPUs that are not there, in the shape of a real report: `rtx4090x2`, mixed `rtx3090+rtx4090`, cut up `mig-a100`."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

_PART = re.compile(r"^(mig-)?([a-z0-9]+?)(?:x([1-8]))?$")
_NAMESPACE = uuid.UUID("6f8a1d8e-4c53-4d57-9d3c-2f5b7f6d9a11")
_MOST = 8
# How a card is cut: name, eighths of the memory, multiprocessors, and the number of the GPU instance.
_CUTS = (("3g", 4, 42, 1), ("2g", 2, 28, 5))
_ECC_KINDS = ("A100", "H100", "H200", "L40S")


@dataclass(frozen=True, slots=True)
class Card:
    """One kind of GPU."""

    name: str
    memory_bytes: int
    compute_capability: str
    power_limit_mw: int
    is_unified: bool = False
    is_cut: bool = False


CARDS = {
    "rtx3090": Card("NVIDIA GeForce RTX 3090", 25_769_803_776, "8.6", 350_000),
    "rtx4090": Card("NVIDIA GeForce RTX 4090", 25_757_220_864, "8.9", 450_000),
    "rtx5090": Card("NVIDIA GeForce RTX 5090", 34_190_917_632, "12.0", 575_000),
    "l40s": Card("NVIDIA L40S", 48_305_799_168, "8.9", 350_000),
    "a100": Card("NVIDIA A100-SXM4-80GB", 85_899_345_920, "8.0", 400_000),
    "h100": Card("NVIDIA H100 80GB HBM3", 85_520_809_984, "9.0", 700_000),
    "h200": Card("NVIDIA H200", 150_754_820_096, "9.0", 700_000),
    "gb10": Card("NVIDIA GB10", 128_524_357_632, "12.1", 140_000, is_unified=True),
}
DEFAULT = "rtx4090x2"


def parse(profile: str) -> tuple[Card, ...]:
    """Read a profile such as `rtx4090x2`, `rtx3090+rtx4090x2` or `mig-a100+a100`. Raises ValueError."""
    cards = [card for part in profile.split("+") for card in _part(part, profile)]
    if len(cards) > _MOST:
        raise ValueError(f"{profile!r} has more than {_MOST} GPUs")
    return tuple(cards)


def _part(part: str, profile: str) -> list[Card]:
    found = _PART.match(part)
    if found is None or found[2] not in CARDS:
        known = ", ".join(sorted(CARDS))
        raise ValueError(f"unknown GPUs {profile!r}; known: {known}, with x1 to x8, joined by +, cut up with mig-")
    return [replace(CARDS[found[2]], is_cut=bool(found[1]))] * int(found[3] or 1)


def report(profile: str, *, node: str) -> list[dict[str, Any]]:
    """The GPUs of a simulated node; their ids are its own and stay the same. Raises ValueError."""
    cards = parse(profile)
    return [_gpu(card, index, cards, node) for index, card in enumerate(cards)]


def faults(gpus: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """What a real report would find wrong with them."""
    codes = {"mig_enabled": "mig", "unified_memory_unsupported": "unified"}
    return [
        {"code": code, "detail": gpu["uuid"]} for gpu in gpus for code, name in codes.items() if gpu["values"][name]
    ]


def _gpu(card: Card, index: int, cards: Sequence[Card], node: str) -> dict[str, Any]:
    own = f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}"
    values, missing = _readings(card, index, len(cards))
    return {
        "uuid": own,
        "index": index,
        "name": card.name,
        "memory_bytes": card.memory_bytes,
        "driver": "570.133.20",
        "compute_capability": card.compute_capability,
        "values": values,
        "missing": missing,
        "instances": [_slice(card, own, at, cut) for at, cut in enumerate(_CUTS)] if card.is_cut else [],
    }


def _readings(card: Card, index: int, count: int) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {
        "bus_id": f"00000000:{0x21 + 0x20 * index:02X}:00.0", "minor_number": index,
        "utilization_percent": 0, "temperature_c": 41 + index, "power_mw": 28_500 + 700 * index,
        "power_limit_mw": card.power_limit_mw, "power_default_mw": card.power_limit_mw,
        "clock_sm_mhz": 210, "clock_sm_max_mhz": 2_520, "throttle_reasons": 0x1, "performance_state": 8,
        "pcie_generation": 4, "pcie_generation_max": 4, "pcie_width": 16, "pcie_width_max": 16, "pcie_replays": 0,
        "compute_mode": 0, "persistence_mode": 1, "display_active": 0, "virtualization": 0, "processes": [],
        "topology": [0 if other == index else 40 for other in range(count)], "xids": [],
        "mig": int(card.is_cut), "unified": card.is_unified,
    }  # fmt: skip
    missing = {"serial": "not_supported"}
    if card.is_unified:
        missing |= dict.fromkeys(("memory_used_bytes", "memory_free_bytes"), "not_supported")
    else:
        values |= {"memory_used_bytes": 512_000_000, "memory_free_bytes": card.memory_bytes - 512_000_000}
    ecc = {"ecc_enabled": 1, "ecc_corrected": 0, "ecc_uncorrected": 0, "remap_pending": 0, "remap_failed": 0}
    if any(kind in card.name for kind in _ECC_KINDS):
        values |= ecc
    else:
        missing |= dict.fromkeys(ecc, "not_supported")
    return values, missing


def _slice(card: Card, whole: str, index: int, cut: tuple[str, int, int, int]) -> dict[str, Any]:
    name, eighths, multiprocessors, instance = cut
    return {
        "index": index,
        "uuid": f"MIG-{uuid.uuid5(_NAMESPACE, whole + name)}",
        "name": f"{card.name} MIG {name}",
        "memory_bytes": card.memory_bytes * eighths // 8,
        "gpu_instance": instance,
        "compute_instance": 0,
        "multiprocessors": multiprocessors,
        "missing": {},
    }
