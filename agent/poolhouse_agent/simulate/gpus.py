"""GPUs that are not there, in the shape of a real report."""

import re
import uuid
from dataclasses import dataclass
from typing import Any

_PROFILE = re.compile(r"^([a-z0-9]+?)(?:x([1-8]))?$")
_NAMESPACE = uuid.UUID("6f8a1d8e-4c53-4d57-9d3c-2f5b7f6d9a11")


@dataclass(frozen=True, slots=True)
class Card:
    """One kind of GPU."""

    name: str
    memory_bytes: int
    compute_capability: str
    power_limit_mw: int


CARDS = {
    "rtx3090": Card("NVIDIA GeForce RTX 3090", 25_769_803_776, "8.6", 350_000),
    "rtx4090": Card("NVIDIA GeForce RTX 4090", 25_757_220_864, "8.9", 450_000),
    "rtx5090": Card("NVIDIA GeForce RTX 5090", 34_190_917_632, "12.0", 575_000),
    "l40s": Card("NVIDIA L40S", 48_305_799_168, "8.9", 350_000),
    "a100": Card("NVIDIA A100-SXM4-80GB", 85_899_345_920, "8.0", 400_000),
    "h100": Card("NVIDIA H100 80GB HBM3", 85_520_809_984, "9.0", 700_000),
    "h200": Card("NVIDIA H200", 150_754_820_096, "9.0", 700_000),
}
DEFAULT = "rtx4090x2"


def parse(profile: str) -> tuple[Card, int]:
    """Read a profile such as `rtx4090x2`. Raises ValueError."""
    found = _PROFILE.match(profile)
    if found is None or found[1] not in CARDS:
        raise ValueError(f"unknown GPUs {profile!r}; known: {', '.join(sorted(CARDS))}, with x1 to x8")
    return CARDS[found[1]], int(found[2] or 1)


def report(profile: str, *, node: str) -> list[dict[str, Any]]:
    """The GPUs of a simulated node; their ids are its own and stay the same. Raises ValueError."""
    card, count = parse(profile)
    return [_gpu(card, index, node) for index in range(count)]


def _gpu(card: Card, index: int, node: str) -> dict[str, Any]:
    return {
        "uuid": f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}",
        "index": index,
        "name": card.name,
        "memory_bytes": card.memory_bytes,
        "driver": "570.133.20",
        "compute_capability": card.compute_capability,
        "values": {
            "memory_used_bytes": 512_000_000,
            "power_limit_mw": card.power_limit_mw,
            "power_mw": 28_500 + 700 * index,
            "temperature_c": 41 + index,
            "utilization_percent": 0,
        },
        "missing": {"serial": "not_supported"},
    }
