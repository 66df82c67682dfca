"""Does a model fit these GPUs, and what would? Memory and speed from config.json, by vLLM's own rules.

shape = read_shape(config=parse_config(Path("config.json").read_bytes()), weight_bytes=16_060_556_376)
answer = plan(shape=shape, gpus=parse_gpus("2 x RTX 3090"), wish=Wish(context=32_768, concurrency=4))
answer.fits, answer.reasons, answer.tensor_parallel, answer.max_concurrency, suggest(answer, …)
"""

from poolhouse_common.planner.budget import Budget, Load
from poolhouse_common.planner.config import MAX_CONFIG_BYTES, parse_config, read_shape, recast, requantized
from poolhouse_common.planner.errors import ConfigRefused, GpusRefused, PlanError
from poolhouse_common.planner.gpus import GIB, MAX_GPUS, Gpu, GpuKind, default_kinds, find_kind, kind_of, parse_gpus
from poolhouse_common.planner.plan import Plan, Wish, plan
from poolhouse_common.planner.reasons import Reason
from poolhouse_common.planner.roofline import Speed, speed_of
from poolhouse_common.planner.shape import ModelShape
from poolhouse_common.planner.suggestions import Suggestion, suggest

__all__ = [
    "GIB",
    "MAX_CONFIG_BYTES",
    "MAX_GPUS",
    "Budget",
    "ConfigRefused",
    "Gpu",
    "GpuKind",
    "GpusRefused",
    "Load",
    "ModelShape",
    "Plan",
    "PlanError",
    "Reason",
    "Speed",
    "Suggestion",
    "Wish",
    "default_kinds",
    "find_kind",
    "kind_of",
    "parse_config",
    "parse_gpus",
    "plan",
    "read_shape",
    "recast",
    "requantized",
    "speed_of",
    "suggest",
]
