"""A `/v1/responses` request as a chat: every field has its place, is refused, or is named as ignored."""

from collections.abc import Callable
from typing import Any, Final

from portal.gateway.dialects.responses import items, tools
from portal.gateway.dialects.translated import Notes, Translated, carry_rest
from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import sampling, values

# What the chat's fields are called here, where the model does not offer them.
RENAMED: Final = {"reasoning_effort": "reasoning.effort"}
LOGPROBS: Final = "message.output_text.logprobs"

_SAME: Final = ("model", "parallel_tool_calls", "stream", "temperature", "top_p")
_STATEFUL: Final = {
    "background": "answers are not kept, so nothing runs in the background",
    "conversation": "conversations are not kept; send the whole conversation as input",
    "previous_response_id": "answers are not kept; send the whole conversation as input",
    "prompt": "prompts are not kept; send instructions and input",
}
_WITHOUT_EFFECT: Final = sampling.WITHOUT_EFFECT | {"prompt_cache_options", "prompt_cache_retention", "stream_options"}
_HANDLED: Final = frozenset(
    {
        *_SAME,
        *_STATEFUL,
        *_WITHOUT_EFFECT,
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "reasoning",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "truncation",
    }
)
_MAX_PAIRS: Final = 16
_MAX_NAME: Final = 64
_MAX_VALUE: Final = 512


def to_chat(raw: dict[str, Any]) -> Translated:
    """Return the chat. Raises ApiError naming the field in the words of this endpoint."""
    notes = Notes()
    _refuse(raw)
    made: dict[str, Any] = {name: raw[name] for name in _SAME if raw.get(name) is not None}
    made["messages"] = items.messages(raw, notes)
    if raw.get("max_output_tokens") is not None:
        made["max_completion_tokens"] = values.whole(raw["max_output_tokens"], "max_output_tokens", low=1)
    for name, place in _PLACED.items():
        if raw.get(name) is not None:
            place(raw[name], made, notes)
    _logprobs(raw, made, notes)
    carry_rest(raw, made, notes, known=_HANDLED)
    return Translated(made, tuple(notes.names))


def metadata(raw: dict[str, Any]) -> dict[str, str]:
    """Return the metadata, which is only echoed. Raises ApiError."""
    if raw.get("metadata") is None:
        return {}
    found = values.mapping(raw["metadata"], "metadata")
    if len(found) > _MAX_PAIRS:
        raise invalid(f"metadata has {len(found)} pairs; at most {_MAX_PAIRS}.", param="metadata")
    for name, value in found.items():
        values.text(name, "metadata", longest=_MAX_NAME)
        values.text(value, f"metadata.{name}", longest=_MAX_VALUE)
    return found


def _refuse(raw: dict[str, Any]) -> None:
    for name, reason in _STATEFUL.items():
        if raw.get(name):
            raise unsupported(f"{name} is not offered: {reason}.", param=name)


def _tools(value: object, made: dict[str, Any], notes: Notes) -> None:
    offered = tools.offered(value, notes)
    if offered:
        made["tools"] = offered


def _choice(value: object, made: dict[str, Any], notes: Notes) -> None:
    del notes
    made["tool_choice"] = tools.choice(value)


def _text(value: object, made: dict[str, Any], notes: Notes) -> None:
    found = values.mapping(value, "text")
    for name in found.keys() - {"format"}:
        if found[name] is not None:
            notes.ignore(f"text.{name}")
    if found.get("format") is None:
        return
    wanted = values.mapping(found["format"], "text.format")
    if wanted.get("type") == "json_schema":
        spec = {name: wanted[name] for name in ("name", "schema", "strict") if wanted.get(name) is not None}
        made["response_format"] = {"type": "json_schema", "json_schema": spec}
    else:
        made["response_format"] = {"type": wanted.get("type")}


def _reasoning(value: object, made: dict[str, Any], notes: Notes) -> None:
    found = values.mapping(value, "reasoning")
    if found.get("effort") is not None:
        made["reasoning_effort"] = found["effort"]
    for name in found.keys() - {"effort"}:
        if found[name] is not None:
            notes.ignore(f"reasoning.{name}")


def _truncation(value: object, made: dict[str, Any], notes: Notes) -> None:
    del made
    if values.word(value, "truncation", frozenset({"auto", "disabled"})) == "auto":
        notes.ignore("truncation")


def _logprobs(raw: dict[str, Any], made: dict[str, Any], notes: Notes) -> None:
    included = values.array(raw["include"], "include", longest=32) if raw.get("include") is not None else []
    for index, name in enumerate(included):
        if values.text(name, f"include[{index}]", longest=128) != LOGPROBS:
            notes.ignore("include")
    if LOGPROBS in included:
        made["logprobs"] = True
        if raw.get("top_logprobs") is not None:
            made["top_logprobs"] = raw["top_logprobs"]
    elif raw.get("top_logprobs"):
        notes.ignore("top_logprobs")


_PLACED: Final[dict[str, Callable[[object, dict[str, Any], Notes], None]]] = {
    "tools": _tools,
    "tool_choice": _choice,
    "text": _text,
    "reasoning": _reasoning,
    "truncation": _truncation,
}
