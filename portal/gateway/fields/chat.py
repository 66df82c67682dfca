"""The fields of `/v1/chat/completions`: one table, from which the body for the node is built anew."""

from collections.abc import Mapping
from typing import Any, Final

from portal.gateway.contracts import ModelEntry
from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import messages, sampling, schemas, values
from portal.gateway.fields.asked import Asked
from portal.gateway.fields.sampling import Check

MAX_TOP_LOGPROBS: Final = 20

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
_COPIED: Final[Mapping[str, Check]] = {
    **sampling.COMMON,
    "logprobs": values.boolean,
    "parallel_tool_calls": values.boolean,
    "top_logprobs": sampling.whole(0, MAX_TOP_LOGPROBS),
}


def _thinking(value: object, param: str) -> object:
    found = values.mapping(value, param)
    for key in found:
        if key != "enable_thinking":
            raise unsupported(f"{param} takes enable_thinking only.", param=f"{param}.{key[:40]}")
    return {key: values.boolean(item, f"{param}.{key}") for key, item in found.items()}


_EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh"})
_LISTED: Final[Mapping[str, Check]] = {
    **sampling.LISTED,
    "chat_template_kwargs": _thinking,
    "reasoning_effort": lambda value, param: values.word(value, param, _EFFORTS),
}


def check(raw: dict[str, Any], model: ModelEntry) -> Asked:
    """Return the checked request. Raises ApiError invalid_value or unsupported_parameter naming the field."""
    sampling.refuse(raw)
    conversation = messages.conversation(raw.get("messages"))
    body: dict[str, Any] = {"model": model.public_id, "messages": conversation.messages}
    ignored = sampling.copy(raw, body, table=_COPIED, listed=_LISTED, handled=_HANDLED, model=model)
    _structure(raw, body, model)
    if body.get("top_logprobs") and not body.get("logprobs"):
        raise invalid("top_logprobs needs logprobs: true.", param="top_logprobs")
    is_stream, wants_usage = sampling.streaming(raw)
    body["max_tokens"] = output_tokens = sampling.output_tokens(raw, model)
    return Asked(
        body=body,
        prompt_bytes=_plain_bytes(conversation, body, model),
        choices=body.get("n", 1),
        output_tokens=output_tokens,
        is_stream=is_stream,
        wants_usage=wants_usage,
        has_tools="tools" in body,
        logprobs=body.get("top_logprobs", 0) if body.get("logprobs") else None,
        ignored=ignored,
        opening=conversation.messages,
    )


def _plain_bytes(conversation: messages.Conversation, body: dict[str, Any], model: ModelEntry) -> int | None:
    """A byte-level token is at least one byte; the template adds what was proven when it was uploaded."""
    is_plain = conversation.is_plain and "tools" not in body and "chat_template_kwargs" not in body
    if not is_plain or model.message_overhead_bytes is None or model.request_overhead_bytes is None:
        return None
    overhead = model.request_overhead_bytes + model.message_overhead_bytes * len(conversation.messages)
    return conversation.content_bytes + overhead


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
