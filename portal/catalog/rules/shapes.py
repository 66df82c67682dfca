"""What a catalogue model takes of a GPU: its config.json read together with how the catalogue serves it."""

from collections.abc import Mapping
from dataclasses import replace

from poolhouse_common import planner
from poolhouse_common.failures import explain

from portal.core.errors import InvalidValue

KV_DTYPES = frozenset({"auto", "fp8", "fp8_e4m3", "fp8_e5m2"})


class ModelConfigInvalid(InvalidValue):
    """The config.json is none that a plan can be made from; the code is the planner's."""

    def __init__(self, error: planner.PlanError) -> None:
        found = explain(error.code)
        super().__init__(f"{found.title}: {error.detail}", param="config", fix=found.fix)
        self.code = error.code  # type: ignore[misc]  # one class for the planner's codes, each with its own code


def shape_of(
    *, config: Mapping[str, object], weight_bytes: int | None, dtype: str, quantization: str
) -> planner.ModelShape:
    """Return the shape as the engine serves it. Raises ModelConfigInvalid.

    Weights that carry no format of their own are served in the catalogue's: `quantization`, else `dtype`.
    """
    try:
        shape = planner.read_shape(config=config, weight_bytes=weight_bytes or 0)
        if shape.quantization.method:
            return shape
        if quantization:
            return planner.requantized(shape, quantization)
        return planner.recast(shape, dtype) if dtype != "auto" else shape
    except planner.ConfigRefused as error:
        raise ModelConfigInvalid(error) from error


def wish_of(*, context: int, concurrency: int, engine_args: Mapping[str, object]) -> planner.Wish:
    """Return what a plan is asked for, with the engine arguments that memory depends on."""
    wish = planner.Wish(context=context, concurrency=concurrency)
    kv_dtype = str(engine_args.get("kv_cache_dtype", "auto"))
    return replace(
        wish,
        tensor_parallel=_whole(engine_args.get("tensor_parallel_size")),
        kv_dtype=kv_dtype if kv_dtype in KV_DTYPES else "auto",
        utilization=_share(engine_args.get("gpu_memory_utilization"), wish.utilization),
        batched_tokens=_whole(engine_args.get("max_num_batched_tokens")),
        block_tokens=_whole(engine_args.get("block_size")),
        is_eager=engine_args.get("enforce_eager") is True,
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _share(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
