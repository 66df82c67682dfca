"""A `/v1/messages` request as a chat: every field has its place, is refused, or is named as ignored."""

from collections.abc import Callable
from typing import Any, Final

from portal.gateway.dialects.messages import history, tools
from portal.gateway.dialects.translated import Notes, Translated, carry_rest
from portal.gateway.errors import unsupported
from portal.gateway.fields import sampling, values

# What the chat's fields are called here, where the model does not offer them.
RENAMED: Final = {"chat_template_kwargs": "thinking", "reasoning_effort": "output_config.effort"}

_SAME: Final = ("model", "stream", "temperature", "top_k", "top_p")
_WITHOUT_EFFECT: Final = frozenset({"diagnostics", "inference_geo", "metadata", "service_tier", "speed"})
_THINKING: Final = frozenset({"adaptive", "between_tools", "disabled", "enabled"})
_EFFORTS: Final = {"low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "xhigh"}
_REFUSED: Final = {
    "container": "containers are not offered; run tools yourself and send their results",
    "mcp_servers": "servers are not called from here; send their tools and run them yourself",
}
_HANDLED: Final = frozenset(
    {
        *_SAME,
        *_WITHOUT_EFFECT,
        "max_tokens",
        "messages",
        "output_config",
        "stop_sequences",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    }
)


def to_chat(raw: dict[str, Any]) -> Translated:
    """Return the chat. Raises ApiError naming the field in the words of this endpoint."""
    translated = to_counted_chat(raw)
    translated.chat["max_tokens"] = values.whole(raw.get("max_tokens"), "max_tokens", low=1)
    return translated


def to_counted_chat(raw: dict[str, Any]) -> Translated:
    """Return the chat of a request whose prompt is only counted: nothing need be said about its answer."""
    notes = Notes()
    _refuse(raw)
    made: dict[str, Any] = {name: raw[name] for name in _SAME if raw.get(name) is not None}
    made["messages"] = history.messages(raw, notes)
    for name, place in _PLACED.items():
        if raw.get(name) is not None:
            place(raw[name], made, notes)
    if raw.get("tool_choice") is not None:
        tools.choice(raw["tool_choice"], made)
    carry_rest(raw, made, notes, known=_HANDLED)
    return Translated(made, tuple(notes.names))


def _refuse(raw: dict[str, Any]) -> None:
    for name, reason in _REFUSED.items():
        if raw.get(name):
            raise unsupported(f"{name}: {reason}.", param=name)


def _stops(value: object, made: dict[str, Any], notes: Notes) -> None:
    del notes
    rows = values.array(value, "stop_sequences", longest=sampling.MAX_STOPS)
    if rows:
        made["stop"] = [values.text(row, f"stop_sequences[{index}]", longest=256) for index, row in enumerate(rows)]


def _tools(value: object, made: dict[str, Any], notes: Notes) -> None:
    offered = tools.offered(value, notes)
    if offered:
        made["tools"] = offered


def _thinking(value: object, made: dict[str, Any], notes: Notes) -> None:
    """Ask for thinking or for none; how much of it is the model's own affair."""
    found = values.mapping(value, "thinking")
    kind = values.word(found.get("type"), "thinking.type", _THINKING)
    if kind == "enabled":
        values.whole(found.get("budget_tokens"), "thinking.budget_tokens", low=1)
        notes.ignore("thinking.budget_tokens")
    made["chat_template_kwargs"] = {"enable_thinking": kind != "disabled"}


def _output(value: object, made: dict[str, Any], notes: Notes) -> None:
    found = values.mapping(value, "output_config")
    effort = found.get("effort")
    if effort is not None:
        made["reasoning_effort"] = _EFFORTS[values.word(effort, "output_config.effort", frozenset(_EFFORTS))]
    if found.get("format") is not None:
        wanted = values.mapping(found["format"], "output_config.format")
        values.word(wanted.get("type"), "output_config.format.type", frozenset({"json_schema"}))
        spec = {"name": "output", "schema": wanted.get("schema"), "strict": True}
        made["response_format"] = {"type": "json_schema", "json_schema": spec}
    for name in found.keys() - {"effort", "format"}:
        notes.ignore(f"output_config.{name}")


_PLACED: Final[dict[str, Callable[[object, dict[str, Any], Notes], None]]] = {
    "stop_sequences": _stops,
    "tools": _tools,
    "thinking": _thinking,
    "output_config": _output,
}
