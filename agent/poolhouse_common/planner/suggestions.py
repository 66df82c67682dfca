"""What fits instead: a shorter context, fewer requests, more GPUs, a smaller cache, another release of the weights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

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
    """A change after which the plan fits; `kind` is a stable word, `text` says it to a person."""

    kind: str
    text: str
    plan: Plan


def suggest(answer: Plan, *, gpus: Sequence[Gpu], wish: Wish) -> tuple[Suggestion, ...]:
    """Return the single changes to a wish that did not fit, each tried out; none where it fitted.

    Where no single change is enough, the larger ones are tried with a shorter context as well.
    """
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
    enough = tuple(one for one in found if one.plan.fits)
    return enough or tuple(_with_less_context(answer, gpus, wish))


def _less_context(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    if context := _shorter(answer):
        tried = plan(shape=answer.shape, gpus=gpus, wish=replace(wish, context=context))
        yield Suggestion("less_context", f"a context of {context:,} tokens", tried)


def _shorter(answer: Plan) -> int:
    """The longest context that its requests have room for, in round steps; 0 where none is worth a word."""
    context = longest_context(answer.shape, answer.gpus[-1], answer.load) // _STEPS * _STEPS
    return context if _SHORTEST <= context < answer.load.context else 0


def _with_less_context(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    for changes in (_spreads(answer, gpus, wish), _smaller_weights(answer, gpus, wish)):
        tried = (_shortened(one, wish) for one in changes)
        yield from islice((one for one in tried if one is not None and one.plan.fits), 1)


def _shortened(one: Suggestion, wish: Wish) -> Suggestion | None:
    context, before = _shorter(one.plan), one.plan
    if not context:
        return None
    shorter = replace(wish, context=context, tensor_parallel=before.tensor_parallel)
    tried = plan(shape=before.shape, gpus=before.gpus, wish=shorter)
    return Suggestion(one.kind, f"{one.text}, with a context of {context:,} tokens", tried)


def _fewer_requests(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    fewer = int(answer.max_concurrency)
    if 1 <= fewer < wish.concurrency:
        tried = plan(shape=answer.shape, gpus=gpus, wish=replace(wish, concurrency=fewer))
        yield Suggestion("fewer_requests", f"{fewer} {'requests' if fewer > 1 else 'request'} at once", tried)


def _other_spread(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    yield from islice((one for one in _spreads(answer, gpus, wish) if one.plan.fits), 1)


def _spreads(answer: Plan, gpus: Sequence[Gpu], wish: Wish) -> Iterator[Suggestion]:
    """Other numbers of GPUs, the fewest first: those that are there, then more of the kind that was planned with."""
    like = answer.gpus[-1]
    there = sum(gpu == like for gpu in gpus)
    for size in SIZES:
        missing = max(0, size - there)
        tried = plan(shape=answer.shape, gpus=[*gpus, *[like] * missing], wish=replace(wish, tensor_parallel=size))
        if size != answer.tensor_parallel:
            text = f"spread over {size} x {tried.gpus[-1].name}"
            have = f", {missing} more than there {'are' if there > 1 else 'is'}" if missing else ""
            yield Suggestion("more_gpus" if missing else "other_gpus", text + have, tried)


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
