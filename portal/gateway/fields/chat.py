"""The fields of `/v1/chat/completions`: one table, from which the body for the node is built anew."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from portal.gateway.contracts import ModelEntry
from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import messages, schemas, values
from portal.gateway.fields.asked import Asked

MAX_CHOICES: Final = 8
MAX_STOPS: Final = 4
MAX_TOP_LOGPROBS: Final = 20
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
_HANDLED: Final = frozenset(
    {
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "response_format",
        "stream",
        "stream_options",
        "tool_choice",
        "tools",
    }
)
_MISPLACED_KEYS: Final = frozenset({"api_key", "apikey", "authorization", "x-api-key"})

Check = Callable[[object, str], object]


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


def _number(low: float, high: float) -> Check:
    return lambda value, param: values.number(value, param, low=low, high=high)


def _whole(low: int, high: int) -> Check:
    return lambda value, param: values.whole(value, param, low=low, high=high)


_COPIED: Final[dict[str, Check]] = {
    "frequency_penalty": _number(-2, 2),
    "logit_bias": _biases,
    "logprobs": values.boolean,
    "n": _whole(1, MAX_CHOICES),
    "parallel_tool_calls": values.boolean,
    "presence_penalty": _number(-2, 2),
    "seed": values.whole,
    "stop": _stop,
    "temperature": _number(0, 2),
    "top_logprobs": _whole(0, MAX_TOP_LOGPROBS),
    "top_p": _number(0, 1),
}


def _thinking(value: object, param: str) -> object:
    found = values.mapping(value, param)
    for key in found:
        if key != "enable_thinking":
            raise unsupported(f"{param} takes enable_thinking only.", param=f"{param}.{key[:40]}")
    return {key: values.boolean(item, f"{param}.{key}") for key, item in found.items()}


_EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh"})
_EXTRAS: Final[dict[str, tuple[str, Check]]] = {
    "chat_template_kwargs": ("chat_template_kwargs.enable_thinking", _thinking),
    "min_p": ("min_p", _number(0, 1)),
    "reasoning_effort": ("reasoning_effort", lambda value, param: values.word(value, param, _EFFORTS)),
    "repetition_penalty": ("repetition_penalty", _number(0.01, 10)),
    "structured_outputs": ("structured_outputs", lambda value, _: schemas.structured_outputs(value)),
    "top_k": ("top_k", _whole(-1, 100_000)),
}


def check(raw: dict[str, Any], model: ModelEntry) -> Asked:
    """Return the checked request. Raises ApiError invalid_value or unsupported_parameter naming the field."""
    refuse(raw)
    conversation = messages.conversation(raw.get("messages"))
    body: dict[str, Any] = {"model": model.public_id, "messages": conversation.messages}
    ignored: list[str] = []
    for field, value in raw.items():
        if value is None or field in _HANDLED or field in WITHOUT_EFFECT:
            continue
        check_value = _COPIED.get(field) or _extra(field, model)
        if check_value is None:
            ignored.append(field)
        else:
            body[field] = check_value(value, field)
    _structure(raw, body, model)
    if body.get("top_logprobs") and not body.get("logprobs"):
        raise invalid("top_logprobs needs logprobs: true.", param="top_logprobs")
    is_stream, wants_usage = _streaming(raw)
    body["max_tokens"] = output_tokens = _output_tokens(raw, model)
    return Asked(
        body=body,
        prompt_bytes=_plain_bytes(conversation, body, model),
        choices=body.get("n", 1),
        output_tokens=output_tokens,
        is_stream=is_stream,
        wants_usage=wants_usage,
        has_tools="tools" in body,
        logprobs=body.get("top_logprobs", 0) if body.get("logprobs") else None,
        ignored=tuple(ignored),
    )


def _plain_bytes(conversation: messages.Conversation, body: dict[str, Any], model: ModelEntry) -> int | None:
    """A byte-level token is at least one byte; the template adds what was proven when it was uploaded."""
    is_plain = conversation.is_plain and "tools" not in body and "chat_template_kwargs" not in body
    if not is_plain or model.message_overhead_bytes is None or model.request_overhead_bytes is None:
        return None
    overhead = model.request_overhead_bytes + model.message_overhead_bytes * len(conversation.messages)
    return conversation.content_bytes + overhead


def refuse(raw: Mapping[str, Any]) -> None:
    """Raise ApiError for fields that no endpoint takes."""
    for field, value in raw.items():
        if value is None:
            continue
        if field in ENGINE_REACHING:
            raise unsupported(f"{field} is not offered: it reaches into the node's engine.", param=field)
        if field in _RETIRED:
            raise unsupported(f"{field} is retired; {_RETIRED[field]}.", param=field)
        if field.lower() in _MISPLACED_KEYS:
            message = f"{field} does not belong in the body: send the key as `Authorization: Bearer …`, and replace it."
            raise invalid(message, param=field)


def _extra(field: str, model: ModelEntry) -> Check | None:
    listed = _EXTRAS.get(field)
    if listed is None:
        return None
    name, check_value = listed
    is_offered = name in model.supported_parameters or field in model.supported_parameters
    return check_value if is_offered else None


def _structure(raw: dict[str, Any], body: dict[str, Any], model: ModelEntry) -> None:
    if raw.get("response_format") is not None:
        wanted = schemas.response_format(raw["response_format"])
        if wanted is not None:
            _require(model, "response_format", "structured_outputs")
            body["response_format"] = wanted
    offered = schemas.tools(raw["tools"]) if raw.get("tools") is not None else []
    if offered:
        _require(model, "tools")
        body["tools"] = offered
    else:
        body.pop("parallel_tool_calls", None)
    if raw.get("tool_choice") is None:
        return
    choice = schemas.tool_choice(raw["tool_choice"], offered)
    if offered:
        body["tool_choice"] = choice
    elif choice not in {"none", "auto"}:
        raise invalid("tool_choice needs tools.", param="tool_choice")


def _require(model: ModelEntry, *names: str) -> None:
    if not model.supported_parameters.intersection(names):
        raise unsupported(f"{model.public_id} does not offer {names[0]}.", param=names[0])


def _streaming(raw: dict[str, Any]) -> tuple[bool, bool]:
    is_stream = raw.get("stream") is not None and values.boolean(raw["stream"], "stream")
    if raw.get("stream_options") is None:
        return is_stream, False
    if not is_stream:
        raise invalid("stream_options needs stream: true.", param="stream_options")
    options = values.mapping(raw["stream_options"], "stream_options")
    wanted = options.get("include_usage")
    return is_stream, wanted is not None and values.boolean(wanted, "stream_options.include_usage")


def _output_tokens(raw: dict[str, Any], model: ModelEntry) -> int:
    given = {
        field: values.whole(raw[field], field, low=1)
        for field in ("max_completion_tokens", "max_tokens")
        if raw.get(field) is not None
    }
    if len(set(given.values())) > 1:
        raise invalid("max_tokens and max_completion_tokens differ; send one.", param="max_tokens")
    wanted = next(iter(given.values()), model.default_output_tokens)
    return min(wanted, model.max_output_tokens, model.context_tokens)
