"""Over how many GPUs a model can be spread, and on which it runs at all."""

from collections.abc import Iterator, Sequence

from poolhouse_common.planner.gpus import Gpu
from poolhouse_common.planner.quantization import capability
from poolhouse_common.planner.reasons import Reason
from poolhouse_common.planner.shape import ModelShape

SIZES = (1, 2, 4, 8)


def division_problem(shape: ModelShape, tensor_parallel: int) -> Reason | None:
    """Return why the model cannot be spread over so many ranks, None where it can."""
    code, heads, keepers = "tensor_parallel_invalid", shape.attention_heads, shape.kv_heads
    if tensor_parallel not in SIZES:
        return Reason(code, f"{tensor_parallel} GPUs: use 1, 2, 4 or 8")
    if heads % tensor_parallel:
        return Reason(code, f"{heads} attention heads do not divide by {tensor_parallel}")
    if keepers and keepers % tensor_parallel and tensor_parallel % keepers:
        return Reason(code, f"{keepers} key and value heads do not share out over {tensor_parallel}")
    for name, width in _widths(shape):
        if width % tensor_parallel:
            return Reason(code, f"{name} of {width} does not divide by {tensor_parallel}")
        group = shape.quantization.group
        if group and width // tensor_parallel % group:
            share = width // tensor_parallel
            return Reason(code, f"{name}: {share} of {width} a GPU is no multiple of the weights' groups of {group}")
    return None


def capability_problem(shape: ModelShape, gpus: Sequence[Gpu]) -> Reason | None:
    """Return why the weights' format does not run on one of these GPUs, None where it does or nobody knows."""
    needed = capability(shape.quantization.floor)
    for gpu in gpus:
        has = capability(gpu.capability)
        if (0, 0) < has < needed:
            label = shape.quantization.label
            detail = f"{label} needs compute capability {shape.quantization.floor}, {gpu.name} has {gpu.capability}"
            return Reason("compute_capability_too_low", detail)
    return None


def usable_sizes(shape: ModelShape, count: int) -> list[int]:
    """Return the numbers of ranks, up to `count`, over which the model can be spread."""
    return [size for size in SIZES if size <= count and division_problem(shape, size) is None]


def _widths(shape: ModelShape) -> Iterator[tuple[str, int]]:
    if shape.experts is None:
        yield "the feed-forward width", shape.intermediate
    else:
        yield "the experts' width", shape.experts.width
