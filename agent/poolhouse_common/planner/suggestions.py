"""What fits instead: a shorter context, fewer requests, more GPUs, a smaller cache, another release of the weights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from poolhouse_common.planner.config import recast, requantized
from poolhouse_common.planner.division import SIZES
from poolhouse_common.planner.gpus import Gpu
from poolhouse_common.planner.plan import Plan, Wish, longest_context, plan
from poolhouse_common.planner.quantization import capability, plain

_STEPS = 256
_SHORTEST = 512
_FP8_CACHE = (8, 9)
_SMALLER = (("fp8", "FP8"), ("awq", "AWQ, 4 bit"))


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One change after which the plan fits; `kind` is a stable word, `text` says it to a person."""

    kind: str
    text: str
    plan: Plan


def suggest(answer: Plan, *, gpus: Sequence[Gpu], wish: Wish) -> tuple[Suggestion, ...]:
    """Return the single changes to a wish that did not fit, each tried out; none where it fitted."""
    if answer.fits:
        return ()
    found = [
        *_less_context(answer, gpus, wish),
        *_fewer_requests(answer, gpus, wish),
        *_other_spread(answer, gpus, wish),
        *_smaller_cache(answer, gpus, wish),
        *_older_numbers(answer, gpus, wish),
        *_smaller_weights(answer, gpus, wish),
    ]
    return tuple(one for one in found if one.plan.fits)


def _less_context(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    reached = longest_context(answer.shape, answer.gpus[-1], replace(answer.load, concurrency=wish.concurrency))
    context = reached // _STEPS * _STEPS if reached >= _STEPS else reached
    if _SHORTEST <= context < answer.load.context:
        tried = plan(shape=answer.shape, gpus=gpus, wish=replace(wish, context=context))
        yield Suggestion("less_context", f"a context of {context:,} tokens", tried)


def _fewer_requests(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    fewer = int(answer.max_concurrency)
    if 1 <= fewer < wish.concurrency:
        tried = plan(shape=answer.shape, gpus=gpus, wish=replace(wish, concurrency=fewer))
        yield Suggestion("fewer_requests", f"{fewer} {'requests' if fewer > 1 else 'request'} at once", tried)


def _other_spread(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    """The fewest GPUs that hold it: those that are there first, then more of the kind that was planned with."""
    like = answer.gpus[-1]
    there = sum(gpu == like for gpu in gpus)
    for size in SIZES:
        missing = max(0, size - there)
        tried = plan(shape=answer.shape, gpus=[*gpus, *[like] * missing], wish=replace(wish, tensor_parallel=size))
        if tried.fits and size != answer.tensor_parallel:
            text = f"spread over {size} x {tried.gpus[-1].name}"
            have = f", {missing} more than there {'are' if there > 1 else 'is'}" if missing else ""
            yield Suggestion("more_gpus" if missing else "other_gpus", text + have, tried)
            return


def _smaller_cache(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    known = [capability(gpu.capability) for gpu in answer.gpus]
    if wish.kv_dtype == "auto" and all(one >= _FP8_CACHE for one in known):
        tried = plan(shape=answer.shape, gpus=gpus, wish=replace(wish, kv_dtype="fp8"))
        yield Suggestion("smaller_cache", "a cache in 8 bits (kv_cache_dtype fp8)", tried)


def _older_numbers(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    """GPUs before Ampere compute in float16 only, which bfloat16 weights are served in as well."""
    if answer.shape.quantization == plain("bfloat16"):
        tried = plan(shape=recast(answer.shape, "float16"), gpus=gpus, wish=wish)
        yield Suggestion("other_dtype", "served in float16 (dtype float16)", tried)


def _smaller_weights(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    for method, label in _SMALLER:
        shape = requantized(answer.shape, method)
        if shape.quantization.bits < answer.shape.quantization.bits:
            yield Suggestion(
                "smaller_weights", f"a release with {label} weights", plan(shape=shape, gpus=gpus, wish=wish)
            )
