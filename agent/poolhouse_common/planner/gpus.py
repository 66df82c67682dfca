"""GPUs as the planner sees them: the figures of known kinds, and how people write them."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from poolhouse_common.planner.errors import GpusRefused

GIB = 1 << 30
MAX_GPUS = 64
_WRITTEN = re.compile(r"(?:(\d{1,3})\s*[x\u00d7*]\s*)?(.{1,64}?)(?:\s*[x\u00d7*]\s*(\d{1,3}))?")
_NOISE = re.compile(r"nvidia|geforce|tesla|quadro|graphics|\bgpus?\b|[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class GpuKind:
    """One kind of GPU: memory as NVML reports it, bandwidth in bytes a second, dense bf16 operations a second.

    `measured_flops` is what matrix products reach where that was published (0: not known); `aliases` are other
    spellings, compared without spaces and marks.
    """

    name: str
    memory_bytes: int
    bandwidth: int
    flops: int
    measured_flops: int
    watts: int
    capability: str
    aliases: tuple[str, ...] = ()

    @property
    def gigabytes_a_second(self) -> int:
        """The bandwidth as data sheets write it."""
        return self.bandwidth // 10**9

    @property
    def tflops(self) -> float:
        """Operations a second as data sheets write them."""
        return round(self.flops / 10**12, 1)

    @property
    def measured_tflops(self) -> float | None:
        """What products reach, None where that is not known."""
        return round(self.measured_flops / 10**12, 1) or None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU to plan for."""

    name: str
    memory_bytes: int
    capability: str = ""


@cache
def default_kinds() -> tuple[GpuKind, ...]:
    """Return the GPU kinds that ship with the software, by name."""
    content = json.loads(Path(__file__).with_name("gpu_kinds.json").read_text())
    return tuple(kind_of(row) for row in content["kinds"])


def kind_of(row: Mapping[str, object]) -> GpuKind:
    """Return one kind from its JSON figures: MiB, GB a second, TFLOPS, watts. Raises ValueError, KeyError."""
    return GpuKind(
        name=str(row["name"]),
        memory_bytes=_int(row["memory_mib"]) << 20,
        bandwidth=_int(row["bandwidth_gbps"]) * 10**9,
        flops=int(_float(row["bf16_tflops"]) * 10**12),
        measured_flops=int(_float(row.get("measured_tflops") or 0) * 10**12),
        watts=_int(row["watts"]),
        capability=str(row["capability"]),
        aliases=tuple(str(alias) for alias in _list(row.get("aliases"))),
    )


def find_kind(name: str, kinds: Iterable[GpuKind] | None = None) -> GpuKind | None:
    """Return the kind that `name` means, however it is written; the longest spelling in it wins. None: unknown."""
    wanted = _plain(name)
    if not wanted:
        return None
    spelled = [(_plain(word), kind) for kind in kinds or default_kinds() for word in (kind.name, *kind.aliases)]
    exact = [kind for word, kind in spelled if word == wanted]
    within = sorted(((len(word), kind.name, kind) for word, kind in spelled if word in wanted), reverse=True)
    return exact[0] if exact else within[0][2] if within else None


def parse_gpus(text: str, kinds: Sequence[GpuKind] | None = None) -> list[Gpu]:
    """Read "3 x 4090" or "2x RTX 3090, 1 A100 80GB"; the sign for times will do as well.

    Raises GpusRefused `gpu_unknown`, `gpus_too_many` or `gpus_missing`.
    """
    found: list[Gpu] = []
    for written in filter(None, (part.strip() for part in re.split(r"[,;+&\n]", text))):
        count, kind = _read_one(written, kinds)
        if len(found) + count > MAX_GPUS:
            raise GpusRefused("gpus_too_many", f"at most {MAX_GPUS} GPUs")
        found += [Gpu(kind.name, kind.memory_bytes, kind.capability)] * count
    if not found:
        raise GpusRefused("gpus_missing", "write how many and which, such as 3 x 4090")
    return found


def _read_one(written: str, kinds: Sequence[GpuKind] | None) -> tuple[int, GpuKind]:
    match = _WRITTEN.fullmatch(written)
    if match is None:
        raise GpusRefused("gpu_unknown", written[:64])
    before, name, after = match.groups()
    count = int(before or after or 0)
    if not count and (spoken := re.fullmatch(r"(\d{1,2})\s+(\S.*)", name)) and find_kind(spoken[2], kinds):
        count, name = int(spoken[1]), spoken[2]
    kind = find_kind(name, kinds)
    if kind is None:
        raise GpusRefused("gpu_unknown", name[:64])
    if before == "0" or after == "0":
        raise GpusRefused("gpus_missing", "the number of GPUs is 0")
    return count or 1, kind


def _plain(name: str) -> str:
    return _NOISE.sub("", name.lower())


def _int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
