"""Which GPUs of a node a model would take, or why none: the planner's answer, on as few and as small GPUs as do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from poolhouse_common import planner
from poolhouse_common.planner import Gpu, ModelShape, Wish

from portal.nodes.rules.placement_facts import GpuFact, ModelFact, NodeFact

_MOST_AT_ONCE = 256
_SIMULATED_AT_ONCE = 8
_VECTORS_AT_ONCE = (
    32  # an embedding engine keeps no cache between tokens: what it takes at once is a matter of batching
)


@dataclass(frozen=True, slots=True)
class Fit:
    """The GPUs that the model takes, and how many full-length requests it then serves at once."""

    gpu_uuids: tuple[str, ...]
    max_concurrency: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a node cannot take a model: a code of the failure catalogue, and what is so here."""

    code: str
    detail: str = ""


def fit(*, model: ModelFact, node: NodeFact, gpus: Sequence[GpuFact]) -> Fit | Misfit:
    """Return how the model would run on some of these GPUs of the node, or the reason that comes nearest."""
    if not gpus:
        return Misfit("placement_no_gpu")
    if model.shape is None:
        if node.is_simulated:
            return Fit((gpus[0].uuid,), _SIMULATED_AT_ONCE, gpus[0].gpu.memory_bytes)
        return Misfit("placement_no_config")
    return _best(model.shape, model.wish, gpus)


def _best(shape: ModelShape, wish: Wish, gpus: Sequence[GpuFact]) -> Fit | Misfit:
    nearest = Misfit("placement_does_not_fit")
    for alike in _alike(gpus):
        answer = _planned(shape, wish, alike[0].gpu, len(alike))
        if isinstance(answer, Misfit):
            nearest = answer
            continue
        count, at_once = answer
        used = alike[:count]
        return Fit(tuple(one.uuid for one in used), at_once, sum(one.gpu.memory_bytes for one in used))
    return nearest


def _alike(gpus: Iterable[GpuFact]) -> list[list[GpuFact]]:
    """The GPUs by kind, the smallest kind first: an engine spans equal GPUs only."""
    ordered = sorted(gpus, key=lambda one: (one.gpu.memory_bytes, one.gpu.name, one.uuid))
    return [list(group) for _, group in groupby(ordered, key=lambda one: (one.gpu.memory_bytes, one.gpu.name))]


@lru_cache(maxsize=8192)
def _planned(shape: ModelShape, wish: Wish, gpu: Gpu, count: int) -> tuple[int, int] | Misfit:
    """Return over how many of `count` equal GPUs the model goes and how many requests then fit; a fleet asks alike."""
    answer = planner.plan(shape=shape, gpus=[gpu] * count, wish=replace(wish, concurrency=1))
    if answer.fits:
        at_once = _VECTORS_AT_ONCE if shape.is_embedding else int(answer.max_concurrency)
        return answer.tensor_parallel, max(1, min(_MOST_AT_ONCE, at_once))
    reason = answer.reasons[0]
    return Misfit("placement_does_not_fit", f"{count} x {gpu.name}: {reason.detail} ({reason.code})")
