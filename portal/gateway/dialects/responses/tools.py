"""The tools of a `/v1/responses` request: functions, which a chat writes one level deeper."""

from typing import Any, Final

from portal.gateway.dialects.translated import Notes
from portal.gateway.errors import unsupported
from portal.gateway.fields import values
from portal.gateway.fields.schemas import MAX_TOOLS

_FIELDS: Final = ("name", "description", "parameters", "strict")


def offered(value: object, notes: Notes) -> list[dict[str, Any]]:
    """Return the functions. Raises ApiError for tools that a provider would have to run."""
    rows = values.array(value, "tools", longest=MAX_TOOLS)
    return [_function(row, f"tools[{index}]", notes) for index, row in enumerate(rows)]


def choice(value: object) -> object:
    """Return the chat's choice of a tool. Raises ApiError."""
    if isinstance(value, str):
        return value
    found = values.mapping(value, "tool_choice")
    if found.get("type") != "function":
        message = "tool_choice takes none, auto, required, or a function by its name."
        raise unsupported(message, param="tool_choice.type")
    return {"type": "function", "function": {"name": found.get("name")}}


def echoed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return functions as an answer repeats them: every field is there."""
    return [{"type": "function"} | {name: row["function"].get(name) for name in _FIELDS} for row in rows]


def _function(value: object, param: str, notes: Notes) -> dict[str, Any]:
    tool = values.mapping(value, param)
    kind = tool.get("type")
    if kind != "function":
        shown = f"of type {kind[:40]!r}" if isinstance(kind, str) else "without a type"
        message = f"A tool {shown} is not offered: send functions and run them yourself."
        raise unsupported(message, param=f"{param}.type")
    for name in tool.keys() - {*_FIELDS, "type"}:
        notes.ignore(f"tools.{name}")
    function = {name: tool[name] for name in _FIELDS if tool.get(name) is not None}
    return {"type": "function", "function": function}
