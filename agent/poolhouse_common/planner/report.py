"""A plan as people read it and as programs take it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from poolhouse_common import failures
from poolhouse_common.planner.gpus import GIB, Gpu
from poolhouse_common.planner.kv_cache import token_bytes
from poolhouse_common.planner.plan import Plan
from poolhouse_common.planner.shape import Attention, ModelShape
from poolhouse_common.planner.suggestions import Suggestion

Row = tuple[str, str, str]

_BILLION, _MILLION = 10**9, 10**6


def as_json(answer: Plan, suggestions: Iterable[Suggestion]) -> dict[str, Any]:
    """Return the plan as docs/schemas/plan.json describes it; every size is in bytes of one GPU."""
    budget, shape = answer.budget, answer.shape
    return {
        "fits": answer.fits,
        "reasons": [_reason(reason.code, reason.detail) for reason in answer.reasons],
        "model": {
            "family": shape.family, "architecture": shape.architecture, "parameters": shape.parameters,
            "active_parameters": shape.active_parameters, "layers": shape.layer_count,
            "quantization": shape.quantization.label, "context_tokens": shape.context_tokens,
        },
        "wanted": {
            "context_tokens": answer.load.context, "concurrency": answer.load.concurrency,
            "kv_dtype": answer.load.kv_dtype, "gpu_memory_utilization": answer.load.utilization,
        },
        "gpus": [{"name": gpu.name, "memory_bytes": gpu.memory_bytes} for gpu in answer.gpus],
        "tensor_parallel": answer.tensor_parallel,
        "gpu_bytes": {
            "total": budget.total, "usable": budget.usable, "weights": budget.weights,
            "activations": budget.activations, "graphs": budget.graphs, "libraries": budget.libraries,
            "cache": budget.cache, "request": budget.request,
        },
        "cache_tokens": answer.cache_tokens,
        "max_concurrency": round(answer.max_concurrency, 2),
        "max_context_tokens": answer.max_context,
        "suggestions": [
            {
                "kind": one.kind, "text": one.text, "tensor_parallel": one.plan.tensor_parallel,
                "context_tokens": one.plan.load.context, "concurrency": one.plan.load.concurrency,
            }
            for one in suggestions
        ],
    }  # fmt: skip


def verdict(answer: Plan) -> str:
    """Return the answer in one sentence."""
    if answer.shape.is_embedding:
        wanted = f"with texts of {answer.load.context:,} tokens"
    else:
        wanted = f"{_requests(answer.load.concurrency)} of {answer.load.context:,} tokens"
    return f"{'fits' if answer.fits else 'does not fit'}: {wanted} on {gpu_names(answer.gpus)}"


def gpu_names(gpus: Sequence[Gpu]) -> str:
    """Return how many of which GPUs, such as "2 x RTX 3090, 1 x A100 SXM 80GB"."""
    return ", ".join(f"{count} x {name}" for name, count in Counter(gpu.name for gpu in gpus).items())


def model_line(shape: ModelShape) -> str:
    """Return what the model is in one line."""
    active = f", {_count(shape.active_parameters)} of them active" if shape.experts else ""
    weights = f"{_count(shape.parameters)} weights{active}, {shape.quantization.label}"
    layers = f"{shape.layer_count} layers" if shape.layer_count else "an encoder"
    return f"{shape.architecture or shape.family}: {weights}, {layers}{_seeing(shape)}"


def budget_rows(answer: Plan) -> list[Row]:
    """Return the sum of one GPU's memory: what, how many GiB, and a word to it."""
    budget = answer.budget
    share = f"{answer.load.utilization:.0%} of {_gib(budget.total)}"
    return [
        ("the engine may use", _gib(budget.usable), share),
        ("weights", _gib(-budget.weights), _spread(answer)),
        ("activations", _gib(-budget.activations), "of the largest step"),
        ("CUDA graphs", _gib(-budget.graphs), ""),
        ("libraries", _gib(-budget.libraries), ""),
        ("left for the cache", _gib(budget.cache), _cache(answer)),
        *([] if answer.shape.is_embedding else [("one request takes", _gib(budget.request), _token(answer))]),
    ]


def limits(answer: Plan) -> str:
    """Return how far the plan reaches, "" where not even one request fits."""
    if answer.shape.is_embedding or answer.max_concurrency < 1:
        return f"one request of {answer.max_context:,} tokens fits" if answer.max_context else ""
    longest = f"or one of {answer.max_context:,}"
    count = int(answer.max_concurrency)
    fit = f"{_requests(count)} of {answer.load.context:,} tokens {'fit' if count > 1 else 'fits'} at once"
    return f"{fit}, {longest}" if answer.max_context > answer.load.context else fit


def reason_lines(answer: Plan) -> list[tuple[str, str, str]]:
    """Return code, what is so, and the catalogue's fix of each reason."""
    return [(reason.code, reason.detail, failures.explain(reason.code).fix) for reason in answer.reasons]


def suggestion_lines(suggestions: Sequence[Suggestion]) -> list[str]:
    """Return each suggestion with what would then fit."""
    return [f"{one.text}: {limits(one.plan) or 'it fits'}" for one in suggestions]


def _reason(code: str, detail: str) -> dict[str, str]:
    found = failures.explain(code)
    return {"code": code, "title": found.title, "detail": detail, "cause": found.cause, "fix": found.fix}


def _requests(count: int) -> str:
    return f"{count:,} requests" if count != 1 else "1 request"


def _count(weights: int) -> str:
    if weights >= _BILLION:
        return f"{weights / _BILLION:.2f} B"
    return f"{weights / _MILLION:.1f} M"


def _seeing(shape: ModelShape) -> str:
    kinds = {
        Attention.SLIDING: "see a window", Attention.LATENT: "keep latent vectors", Attention.STATE: "keep a state",
    }  # fmt: skip
    found = [f"{group.count} {kinds[group.attention]}" for group in shape.layers if group.attention in kinds]
    return f" ({', '.join(found)})" if found else ""


def _spread(answer: Plan) -> str:
    return f"spread over {answer.tensor_parallel} GPUs" if answer.tensor_parallel > 1 else ""


def _cache(answer: Plan) -> str:
    return f"{answer.cache_tokens:,} tokens" if answer.cache_tokens else ""


def _token(answer: Plan) -> str:
    size = token_bytes(answer.shape, tensor_parallel=answer.tensor_parallel, kv_dtype=answer.load.kv_dtype)
    return f"{size / 1024:,.1f} KiB a token and GPU"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"
