"""Which GPUs of a node a model would take, or why none: the planner's answer, on as few and as small GPUs as do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from poolhouse_common import planner
from poolhouse_common.planner import Gpu

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


Kinds = Sequence[Sequence[GpuFact]]


def kinds(gpus: Iterable[GpuFact]) -> Kinds:
    """Return the GPUs by kind, the smallest kind first: an engine spans equal GPUs only."""
    ordered = sorted(gpus, key=lambda one: (one.gpu.memory_bytes, one.gpu.name, one.uuid))
    return [list(group) for _, group in groupby(ordered, key=lambda one: (one.gpu.memory_bytes, one.gpu.name))]


def fit(*, model: ModelFact, node: NodeFact, gpus: Kinds) -> Fit | Misfit:
    """Return how the model would run on some of these GPUs of the node, or the reason that comes nearest."""
    if not gpus:
        return Misfit("placement_no_gpu")
    if model.shape is None:
        if node.is_simulated:
            return Fit((gpus[0][0].uuid,), _SIMULATED_AT_ONCE, gpus[0][0].gpu.memory_bytes)
        return Misfit("placement_no_config")
    nearest = Misfit("placement_does_not_fit")
    for alike in gpus:
        answer = _planned(model, alike[0].gpu, len(alike))
        if not isinstance(answer, Misfit):
            used = alike[: answer.gpus]
            return Fit(tuple(one.uuid for one in used), answer.at_once, sum(one.gpu.memory_bytes for one in used))
        nearest = answer
    return nearest


@dataclass(frozen=True, slots=True)
class _Planned:
    """Over how many equal GPUs a model goes, and how many full-length requests then fit."""

    gpus: int
    at_once: int


@lru_cache(maxsize=4096)
def _planned(model: ModelFact, gpu: Gpu, count: int) -> _Planned | Misfit:
    """Return how a model goes on `count` equal GPUs; the nodes of a round ask alike."""
    if model.shape is None:
        return Misfit("placement_no_config")
    answer = planner.plan(shape=model.shape, gpus=[gpu] * count, wish=replace(model.wish, concurrency=1))
    if answer.fits:
        at_once = _VECTORS_AT_ONCE if model.shape.is_embedding else int(answer.max_concurrency)
        return _Planned(answer.tensor_parallel, max(1, min(_MOST_AT_ONCE, at_once)))
    reason = answer.reasons[0]
    return Misfit("placement_does_not_fit", f"{count} x {gpu.name}: {reason.detail} ({reason.code})")
