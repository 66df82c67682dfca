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
_NOISE = frozenset({"nvidia", "geforce", "tesla", "quadro", "graphics", "gpu", "gpus", "card", "cards"})
_RELATIVES = frozenset({"laptop", "mobile", "mig", "max", "maxq", "q", "d", "ti", "super"})
_SLICE, _SIZE = re.compile(r"\d+[abcq]"), re.compile(r"(\d+)gb")


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
    """Return the kind that `name` means, however it is written; the longest spelling in it wins.

    None where nobody knows it, and for relatives of a known name: a laptop's, a slice, another size of memory.
    """
    wanted, words = _plain(name), _words(name)
    if not wanted:
        return None
    spelled = [(spelling, kind) for kind in kinds or default_kinds() for spelling in (kind.name, *kind.aliases)]
    exact = next((kind for spelling, kind in spelled if _plain(spelling) == wanted), None)
    if exact is not None:
        return exact
    found = [(len(_words(spelling)), spelling, kind) for spelling, kind in spelled if _is_within(spelling, words)]
    if not found:
        return None
    _, spelling, kind = max(found, key=lambda one: (one[0], len(one[1])))
    return None if _is_relative([word for word in words if word not in _words(spelling)], kind) else kind


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
    return "".join(_words(name))


def _words(name: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in _NOISE]


def _is_within(spelling: str, words: Sequence[str]) -> bool:
    """Whether the spelling's words stand in a row: `A100` is in `A100-SXM4-40GB`, not in `RTX A1000`."""
    sought = _words(spelling)
    return any(list(words[at : at + len(sought)]) == sought for at in range(len(words) - len(sought) + 1))


def _is_relative(rest: Iterable[str], kind: GpuKind) -> bool:
    """Whether what else the name says makes it another card than the kind."""
    for word in rest:
        if word in _RELATIVES or _SLICE.fullmatch(word):
            return True
        if (size := _SIZE.fullmatch(word)) and abs(int(size[1]) * GIB - kind.memory_bytes) > kind.memory_bytes // 8:
            return True
    return False


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
