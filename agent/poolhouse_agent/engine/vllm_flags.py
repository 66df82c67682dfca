"""The arguments vLLM is started with: ours, and those of the portal that are on this list, by type and range."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

SHUTDOWN_S = 60
_QUEUE_FACTOR = 2
_SHORTEST_QUEUE = 16  # a request with n = 8 counts as eight

_DTYPES = frozenset({"", "auto", "bfloat16", "float16", "float32", "half"})
_QUANTIZATIONS = frozenset({
    "", "awq", "awq_marlin", "compressed-tensors", "experts_int8", "fbgemm_fp8", "fp8", "gptq", "gptq_marlin",
    "modelopt", "modelopt_fp4", "moe_wna16", "mxfp4", "quark", "torchao",
})  # fmt: skip
_TOOL_PARSERS = frozenset({
    "deepseek_v3", "deepseek_v31", "glm45", "granite4", "hermes", "internlm", "jamba", "kimi_k2", "llama3_json",
    "llama4_pythonic", "minimax_m2", "mistral", "openai", "phi4_mini_json", "pythonic", "qwen3_coder", "qwen3_xml",
    "seed_oss", "xlam",
})  # fmt: skip
_REASONING_PARSERS = frozenset({
    "deepseek_r1", "deepseek_v3", "glm45", "granite", "hunyuan_a13b", "mistral", "openai_gptoss", "qwen3", "step3",
})  # fmt: skip

_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{8,60}")
_MOST_GPUS = 8
_LOW_SHARE, _HIGH_SHARE = 0.1, 0.97

Rule = Callable[[Any], list[str]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the engine listens and what it may use on this machine."""

    port: int
    folder: Path
    served_name: str
    gpu_memory_utilization: float
    has_gpus: bool


def arguments(desired: Desired, place: Place) -> list[str]:
    """Return the arguments of `vllm serve`. Raises EngineError `engine_argument_refused`."""
    asked = requested(desired)
    return [
        "serve", str(place.folder), "--host", "127.0.0.1", "--port", str(place.port),
        "--served-model-name", place.served_name,
        "--max-model-len", str(desired.context_tokens),
        "--max-num-seqs", str(desired.max_concurrency),
        "--max-num-queued-reqs", str(max(_SHORTEST_QUEUE, desired.max_concurrency * _QUEUE_FACTOR)),
        "--shutdown-timeout", str(SHUTDOWN_S),
        "--generation-config", "vllm",
        "--enable-prompt-tokens-details", "--enable-request-id-headers", "--enable-force-include-usage",
        "--disable-fastapi-docs", "--disable-uvicorn-access-log",
        *(["--gpu-memory-utilization", f"{place.gpu_memory_utilization:.2f}"] if place.has_gpus else []),
        *asked,
    ]  # fmt: skip


def requested(desired: Desired) -> list[str]:
    """Return the arguments that the portal asks for. Raises EngineError where one is not on the list."""
    _check_settings(desired.settings)
    return [
        *_of_set("dtype", desired.dtype, _DTYPES),
        *_of_set("quantization", desired.quantization, _QUANTIZATIONS),
        *_from_portal({**desired.engine_args, **_spread_over(desired.settings)}),
    ]


def _spread_over(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: settings[name] for name in ("tensor_parallel_size",) if name in settings}


def _of_set(name: str, value: str, allowed: frozenset[str]) -> list[str]:
    if value not in allowed:
        raise _refused(name)
    return [_flag(name), value] if value else []


def _from_portal(asked: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, value in sorted(asked.items()):
        rule = _ALLOWED.get(name)
        if rule is None:
            raise _refused(name)
        found += rule(value)
    return found


def _switch(name: str) -> Rule:
    def rule(value: Any) -> list[str]:
        if not isinstance(value, bool):
            raise _refused(name)
        return [_flag(name)] if value else [f"--no-{name.replace('_', '-')}"]

    return rule


def _on_only(name: str) -> Rule:
    def rule(value: Any) -> list[str]:
        if not isinstance(value, bool):
            raise _refused(name)
        return [_flag(name)] if value else []

    return rule


def _number(name: str, low: int, high: int) -> Rule:
    def rule(value: Any) -> list[str]:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _refused(name)
        return [_flag(name), str(value)]

    return rule


def _word(name: str, allowed: frozenset[str]) -> Rule:
    def rule(value: Any) -> list[str]:
        if not isinstance(value, str) or value not in allowed:
            raise _refused(name)
        return [_flag(name), value]

    return rule


def _gpu_count(value: Any) -> list[str]:
    if isinstance(value, bool) or value not in {1, 2, 4, 8}:
        raise EngineError("tensor_parallel_invalid", f"tensor_parallel_size {value!r:.20}")
    return ["--tensor-parallel-size", str(value)]


_ALLOWED: Mapping[str, Rule] = {
    "tensor_parallel_size": _gpu_count,
    **{
        name: _switch(name)
        for name in ("enable_prefix_caching", "enable_chunked_prefill", "enforce_eager", "async_scheduling")
    },
    **{
        name: _on_only(name)
        for name in ("enable_auto_tool_choice", "disable_custom_all_reduce", "enable_expert_parallel")
    },
    "max_num_batched_tokens": _number("max_num_batched_tokens", 64, 1 << 20),
    "max_logprobs": _number("max_logprobs", 0, 20),
    "num_gpu_blocks_override": _number("num_gpu_blocks_override", 1, 1 << 24),
    "seed": _number("seed", 0, 1 << 31),
    "block_size": _number("block_size", 1, 256),
    "kv_cache_dtype": _word("kv_cache_dtype", frozenset({"auto", "fp8", "fp8_e4m3", "fp8_e5m2"})),
    "tool_call_parser": _word("tool_call_parser", _TOOL_PARSERS),
    "reasoning_parser": _word("reasoning_parser", _REASONING_PARSERS),
}


def gpus_wanted(desired: Desired) -> int:
    """How many GPUs the deployment spreads over."""
    value = _spread(desired)
    return value if isinstance(value, int) else 1


def wanted_uuids(desired: Desired) -> tuple[str, ...]:
    """Which GPUs the pool chose; none where any will do."""
    return tuple(desired.settings.get("gpu_uuids", ()))


def _spread(desired: Desired) -> Any:
    """The node's own setting goes before the model's."""
    return desired.settings.get("tensor_parallel_size", desired.engine_args.get("tensor_parallel_size", 1))


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Only what says which share of this machine is used. Raises EngineError."""
    for name, value in settings.items():
        is_sound = _SETTINGS.get(name)
        if is_sound is None or not is_sound(value):
            raise EngineError("engine_argument_refused", f"setting {name[:64]!r}")


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _LOW_SHARE <= value <= _HIGH_SHARE


def _is_uuids(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and 0 < len(value) <= _MOST_GPUS
        and all(isinstance(uuid, str) and _UUID.fullmatch(uuid) for uuid in value)
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _refused(name: str) -> EngineError:
    return EngineError("engine_argument_refused", str(name)[:64])


_SETTINGS: Mapping[str, Callable[[Any], bool]] = {
    "gpu_uuids": _is_uuids,
    "gpu_memory_utilization": _is_share,
    "tensor_parallel_size": lambda value: not isinstance(value, bool) and value in {1, 2, 4, 8},
}
