"""What the generating endpoints have in common: the fields of sampling, what every endpoint refuses or ignores."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from portal.gateway.contracts import ModelEntry
from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import schemas, values

MAX_CHOICES: Final = 8
MAX_STOPS: Final = 4
_MAX_STOP: Final = 256
_MAX_BIASES: Final = 300

WITHOUT_EFFECT: Final = frozenset(
    {"metadata", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"},
)
ENGINE_REACHING: Final = frozenset(
    {
        "add_generation_prompt",
        "add_special_tokens",
        "best_of",
        "cache_salt",
        "chat_template",
        "continue_final_message",
        "data_parallel_rank",
        "documents",
        "echo",
        "ec_transfer_params",
        "kv_transfer_params",
        "logits_processors",
        "media_io_kwargs",
        "mm_processor_kwargs",
        "priority",
        "prompt_embeds",
        "prompt_logprobs",
        "request_id",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "truncate_prompt_tokens",
        "use_beam_search",
        "vllm_xargs",
    }
)
_RETIRED: Final = {"functions": "use tools", "function_call": "use tool_choice"}
_MISPLACED_KEYS: Final = frozenset({"api_key", "apikey", "authorization", "x-api-key"})

Check = Callable[[object, str], object]


def number(low: float, high: float) -> Check:
    """Return the check of a number within bounds."""
    return lambda value, param: values.number(value, param, low=low, high=high)


def whole(low: int, high: int) -> Check:
    """Return the check of a whole number within bounds."""
    return lambda value, param: values.whole(value, param, low=low, high=high)


def _stop(value: object, param: str) -> object:
    if isinstance(value, str):
        return values.text(value, param, longest=_MAX_STOP)
    rows = values.array(value, param, longest=MAX_STOPS)
    return [values.text(row, param, longest=_MAX_STOP) for row in rows]


def _biases(value: object, param: str) -> object:
    found = values.mapping(value, param)
    if len(found) > _MAX_BIASES:
        raise invalid(f"{param} has {len(found)} entries; at most {_MAX_BIASES}.", param=param)
    for token, bias in found.items():
        if not (token.isascii() and token.isdigit()):
            raise invalid(f"{param} maps token ids to numbers.", param=param)
        values.number(bias, param, low=-100, high=100)
    return found


COMMON: Final[Mapping[str, Check]] = {
    "frequency_penalty": number(-2, 2),
    "logit_bias": _biases,
    "n": whole(1, MAX_CHOICES),
    "presence_penalty": number(-2, 2),
    "seed": values.whole,
    "stop": _stop,
    "temperature": number(0, 2),
    "top_p": number(0, 1),
}
# Offered where the catalogue lists them for the model.
LISTED: Final[Mapping[str, Check]] = {
    "min_p": number(0, 1),
    "repetition_penalty": number(0.01, 10),
    "structured_outputs": lambda value, _: schemas.structured_outputs(value),
    "top_k": whole(-1, 100_000),
}


def refuse(raw: Mapping[str, Any], engine_reaching: frozenset[str] = ENGINE_REACHING) -> None:
    """Raise ApiError for fields that no endpoint takes."""
    for field, value in raw.items():
        if value is None:
            continue
        if field in engine_reaching:
            raise unsupported(f"{field} is not offered: it reaches into the node's engine.", param=field)
        if field in _RETIRED:
            raise unsupported(f"{field} is retired; {_RETIRED[field]}.", param=field)
        if field.lower() in _MISPLACED_KEYS:
            message = f"{field} does not belong in the body: send the key as `Authorization: Bearer …`, and replace it."
            raise invalid(message, param=field)


def copy(
    raw: Mapping[str, Any],
    body: dict[str, Any],
    *,
    table: Mapping[str, Check],
    listed: Mapping[str, Check],
    handled: frozenset[str],
    model: ModelEntry,
) -> tuple[str, ...]:
    """Copy the fields of the tables into `body`, each checked; return the names of those that nobody knows."""
    ignored: list[str] = []
    for field, value in raw.items():
        if value is None or field in handled or field in WITHOUT_EFFECT:
            continue
        check = table.get(field)
        if check is None and _is_listed(field, model):
            check = listed.get(field)
        if check is None:
            ignored.append(field)
        else:
            body[field] = check(value, field)
    return tuple(ignored)


def _is_listed(field: str, model: ModelEntry) -> bool:
    names = model.supported_parameters
    return field in names or (field == "chat_template_kwargs" and "chat_template_kwargs.enable_thinking" in names)


def streaming(raw: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether the answer is streamed, and whether the customer wants its usage."""
    is_stream = raw.get("stream") is not None and values.boolean(raw["stream"], "stream")
    if raw.get("stream_options") is None:
        return is_stream, False
    if not is_stream:
        raise invalid("stream_options needs stream: true.", param="stream_options")
    options = values.mapping(raw["stream_options"], "stream_options")
    wanted = options.get("include_usage")
    return is_stream, wanted is not None and values.boolean(wanted, "stream_options.include_usage")


def output_tokens(raw: Mapping[str, Any], model: ModelEntry) -> int:
    """Return the effective maximum of one choice: the customer's, or the model's default, never above its most."""
    given = {
        field: values.whole(raw[field], field, low=1)
        for field in ("max_completion_tokens", "max_tokens")
        if raw.get(field) is not None
    }
    if len(set(given.values())) > 1:
        raise invalid("max_tokens and max_completion_tokens differ; send one.", param="max_tokens")
    wanted = next(iter(given.values()), model.default_output_tokens)
    return min(wanted, model.max_output_tokens, model.context_tokens)
