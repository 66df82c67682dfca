"""The tools of a `/v1/messages` request as a chat's functions."""

from typing import Any, Final

from portal.gateway.dialects.translated import Notes
from portal.gateway.errors import unsupported
from portal.gateway.fields import values
from portal.gateway.fields.schemas import MAX_TOOLS

_KNOWN: Final = frozenset({"description", "input_schema", "name", "strict", "type"})
_CHOICES: Final = {"any": "required", "auto": "auto", "none": "none"}


def offered(value: object, notes: Notes) -> list[dict[str, Any]]:
    """Return the functions. Raises ApiError for tools that a provider would have to run."""
    rows = values.array(value, "tools", longest=MAX_TOOLS)
    return [_function(row, f"tools[{index}]", notes) for index, row in enumerate(rows)]


def choice(value: object, made: dict[str, Any]) -> None:
    """Put the choice of a tool into the chat. Raises ApiError."""
    found = values.mapping(value, "tool_choice")
    kind = values.word(found.get("type"), "tool_choice.type", frozenset({*_CHOICES, "tool"}))
    if kind == "tool":
        name = values.name(found.get("name"), "tool_choice.name")
        made["tool_choice"] = {"type": "function", "function": {"name": name}}
    else:
        made["tool_choice"] = _CHOICES[kind]
    alone = found.get("disable_parallel_tool_use")
    if alone is not None and values.boolean(alone, "tool_choice.disable_parallel_tool_use"):
        made["parallel_tool_calls"] = False


def _function(value: object, param: str, notes: Notes) -> dict[str, Any]:
    tool = values.mapping(value, param)
    if tool.get("type", "custom") not in ("custom", None):  # not a set: a type may be anything, even a list
        message = f"{param} is of a type that is not offered: send a name, a description and an input_schema."
        raise unsupported(message, param=f"{param}.type")
    for name in tool.keys() - _KNOWN:
        notes.ignore("cache_control" if name == "cache_control" else f"tools.{name}")
    function: dict[str, Any] = {
        "name": tool.get("name"),
        "parameters": values.mapping(tool.get("input_schema"), f"{param}.input_schema"),
    }
    for name in ("description", "strict"):
        if tool.get(name) is not None:
            function[name] = tool[name]
    return {"type": "function", "function": function}
