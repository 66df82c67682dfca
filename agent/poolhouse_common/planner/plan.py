"""Does this model, with this context and so many concurrent requests, fit these GPUs: the question and its answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poolhouse_common.planner.budget import Budget, Load, budget_of
from poolhouse_common.planner.division import capability_problem, division_problem, usable_sizes
from poolhouse_common.planner.errors import GpusRefused
from poolhouse_common.planner.gpus import GIB, Gpu
from poolhouse_common.planner.kv_cache import KV_BYTES
from poolhouse_common.planner.reasons import Reason
from poolhouse_common.planner.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted. `context` 0 is the model's own; `tensor_parallel` 0 is the fewest GPUs on which it fits."""

    context: int = 0
    concurrency: int = 1
    tensor_parallel: int = 0
    kv_dtype: str = "auto"
    utilization: float = 0.90
    batched_tokens: int = 0
    block_tokens: int = 0
    is_eager: bool = False


WISH = Wish()
_LEAST_UTILIZATION = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer. `budget` is of one of the equal GPUs used; `reasons` say why it does not fit, empty where it does.

    `max_concurrency` is how many requests of the full context fit, `max_context` the longest single request.
    """

    shape: ModelShape
    gpus: tuple[Gpu, ...]
    load: Load
    budget: Budget
    reasons: tuple[Reason, ...]
    max_concurrency: float
    max_context: int
    cache_tokens: int

    @property
    def fits(self) -> bool:
        """Whether the engine would start and hold all wanted requests at once."""
        return not self.reasons

    @property
    def tensor_parallel(self) -> int:
        """Over how many GPUs the model is spread."""
        return self.load.tensor_parallel


def plan(*, shape: ModelShape, gpus: Sequence[Gpu], wish: Wish = WISH) -> Plan:
    """Return whether the wish fits, on the fewest equal GPUs where the wish names no number.

    Raises GpusRefused where there is no GPU, and ValueError for a wish that makes no sense.
    """
    if not gpus:
        raise GpusRefused("gpus_missing", "there is no GPU to plan for")
    _require_sense(wish)
    answers = [
        _plan_on(shape, alike, wish, size)
        for alike in _alike(gpus)
        for size in ([wish.tensor_parallel] if wish.tensor_parallel else usable_sizes(shape, len(alike)) or [1])
    ]
    fitting = [answer for answer in answers if answer.fits]
    if fitting:
        return min(fitting, key=lambda answer: (answer.tensor_parallel, answer.gpus[0].memory_bytes))
    return max(answers, key=lambda answer: (answer.max_concurrency, answer.budget.cache, len(answer.gpus)))


def _alike(gpus: Sequence[Gpu]) -> list[list[Gpu]]:
    """The GPUs by kind: an engine spans equal GPUs only, or the largest would wait for the smallest."""
    found: dict[Gpu, list[Gpu]] = {}
    for gpu in gpus:
        found.setdefault(gpu, []).append(gpu)
    return list(found.values())


def _plan_on(shape: ModelShape, alike: Sequence[Gpu], wish: Wish, size: int) -> Plan:
    used = tuple(alike[:size])
    context = wish.context or shape.context_tokens
    load = Load(
        context, wish.concurrency, size, kv_dtype=wish.kv_dtype, utilization=wish.utilization,
        batched_tokens=wish.batched_tokens, block_tokens=wish.block_tokens, is_eager=wish.is_eager,
    )  # fmt: skip
    budget = budget_of(shape, used[-1], load)
    reasons = _reasons(shape, used, load, budget)
    can_start = not any(reason.code in _HARD for reason in reasons)
    concurrency = budget.concurrency() if can_start and not shape.is_embedding else 0.0
    return Plan(
        shape=shape, gpus=used, load=load, budget=budget, reasons=reasons,
        max_concurrency=float(wish.concurrency) if shape.is_embedding and can_start else concurrency,
        max_context=longest_context(shape, used[-1], replace(load, concurrency=1)) if can_start else 0,
        cache_tokens=int(concurrency * context),
    )  # fmt: skip


_HARD = frozenset({
    "tensor_parallel_invalid", "compute_capability_too_low", "out_of_gpu_memory", "gpus_missing",
})  # fmt: skip


def longest_context(shape: ModelShape, gpu: Gpu, load: Load) -> int:
    """Return the longest context at which all of the load's requests fit, 0 where none does."""
    low, high = 0, shape.context_tokens
    while low < high:
        middle = (low + high + 1) // 2
        found = budget_of(shape, gpu, replace(load, context=middle))
        is_held = found.cache >= 0 and (shape.is_embedding or found.concurrency() >= load.concurrency)
        low, high = (middle, high) if is_held else (low, middle - 1)
    return low


def _reasons(shape: ModelShape, used: Sequence[Gpu], load: Load, budget: Budget) -> tuple[Reason, ...]:
    found = [capability_problem(shape, used), division_problem(shape, load.tensor_parallel)]
    if len(used) < load.tensor_parallel:
        found.append(Reason("gpus_missing", f"{load.tensor_parallel} GPUs are wanted, there are {len(used)}"))
    if load.context > shape.context_tokens:
        detail = f"{load.context:,} tokens are wanted, the model was made for {shape.context_tokens:,}"
        found.append(Reason("context_beyond_model", detail))
    if budget.cache <= 0:
        detail = f"{_gib(-budget.cache)} GiB a GPU are missing before the first token of the cache"
        found.append(Reason("out_of_gpu_memory", detail))
    elif not shape.is_embedding:
        found.append(_cache_reason(load, budget))
    return tuple(reason for reason in found if reason)


def _cache_reason(load: Load, budget: Budget) -> Reason | None:
    reached = budget.concurrency()
    if reached < 1:
        detail = f"one request of {load.context:,} tokens takes {_gib(budget.request)} GiB of {_gib(budget.cache)}"
        return Reason("context_does_not_fit", detail)
    if reached < load.concurrency:
        detail = f"{reached:.2f} of {load.concurrency} requests of {load.context:,} tokens fit at once"
        return Reason("concurrency_does_not_fit", detail)
    return None


def _require_sense(wish: Wish) -> None:
    is_possible = wish.context >= 0 and wish.concurrency >= 1 and wish.kv_dtype in KV_BYTES
    if not is_possible or not _LEAST_UTILIZATION <= wish.utilization <= 1:
        raise ValueError(f"no sense can be made of {wish}")


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"
