"""Names that a catalogue entry may use: request parameters it supports and arguments it hands to the engine."""

import re
from collections.abc import Callable, Mapping

from portal.core.errors import InvalidValue

SUPPORTED_PARAMETERS = frozenset({
    "tools", "tool_choice", "parallel_tool_calls", "response_format", "structured_outputs", "logprobs", "top_logprobs",
    "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "stop",
    "seed", "max_tokens", "max_completion_tokens", "n", "logit_bias", "chat_template_kwargs.enable_thinking",
    "reasoning_effort", "stream_options", "dimensions", "encoding_format",
})  # fmt: skip

EngineValue = str | int | float | bool


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _whole(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _share(low: float, high: float) -> Callable[[object], bool]:
    return lambda value: type(value) in {int, float} and low <= float(str(value)) <= high


def _word(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,47}", value) is not None


ENGINE_ARGUMENTS: Mapping[str, Callable[[object], bool]] = {
    "enable_prefix_caching": _flag,
    "enable_chunked_prefill": _flag,
    "enable_auto_tool_choice": _flag,
    "enforce_eager": _flag,
    "disable_custom_all_reduce": _flag,
    "max_num_seqs": _whole(1, 4096),
    "max_num_batched_tokens": _whole(64, 1_048_576),
    "tensor_parallel_size": lambda value: type(value) is int and value in {1, 2, 4, 8},
    "gpu_memory_utilization": _share(0.3, 0.97),
    "kv_cache_dtype": _word,
    "tool_call_parser": _word,
    "reasoning_parser": _word,
    "block_size": _whole(1, 256),
}


class EngineArgumentRefused(InvalidValue):
    """The argument is not on the list, or its value is not of the kind the list says."""

    code = "engine_argument_refused"


def require_engine_arguments(arguments: Mapping[str, object]) -> dict[str, EngineValue]:
    """Return the arguments where each is on the list. Raises EngineArgumentRefused."""
    checked: dict[str, EngineValue] = {}
    for name, value in arguments.items():
        accepts = ENGINE_ARGUMENTS.get(name)
        if accepts is None:
            raise EngineArgumentRefused(f"the engine argument {name!r} is not allowed", param="engine_args")
        if not accepts(value) or not isinstance(value, str | int | float | bool):
            raise EngineArgumentRefused(f"the engine argument {name} cannot be {value!r}", param="engine_args")
        checked[name] = value
    return checked


def require_supported_parameters(names: list[str]) -> list[str]:
    """Return the names, sorted, where each is known. Raises InvalidValue."""
    unknown = sorted(set(names) - SUPPORTED_PARAMETERS)
    if unknown:
        raise InvalidValue(f"unknown parameters: {', '.join(unknown)[:200]}", param="supported_parameters")
    return sorted(set(names))
