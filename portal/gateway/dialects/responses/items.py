"""The input of a `/v1/responses` request as a chat's messages."""

from collections.abc import Callable
from typing import Any, Final

from portal.gateway.dialects.translated import Notes, add_turn
from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import values
from portal.gateway.fields.messages import MAX_MESSAGES

_MAX_PARTS: Final = 2_048
_MAX_ID: Final = 128
_ROLES: Final = frozenset({"assistant", "developer", "system", "user"})
_TEXTS: Final = {"input_text": "text", "output_text": "text", "refusal": "refusal", "text": "text"}

Row = dict[str, Any]


def messages(raw: dict[str, Any], notes: Notes) -> list[Row]:
    """Return the chat's messages. Raises ApiError naming what cannot be said in a chat."""
    rows: list[Row] = []
    if raw.get("instructions") is not None:
        instructions = values.text(raw["instructions"], "instructions")
        if instructions:
            rows.append({"role": "system", "content": instructions})
    given = raw.get("input")
    if isinstance(given, str):
        add_turn(rows, {"role": "user", "content": given})
        return rows
    if not isinstance(given, list):
        raise invalid("input must be a string or a list of items.", param="input")
    for index, item in enumerate(values.array(given, "input", longest=MAX_MESSAGES, shortest=1)):
        where = f"input[{index}]"
        row = _row(values.mapping(item, where), where, notes)
        if row is not None:
            add_turn(rows, row)
    return rows


def _row(item: Row, param: str, notes: Notes) -> Row | None:
    kind = item.get("type", "message")
    if kind == "reasoning":
        notes.ignore("input.reasoning")
        return None
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        message = f"{param} is of a type that is not offered: send messages, function calls and their outputs."
        raise unsupported(message, param=f"{param}.type")
    return read(item, param)


def _message(item: Row, param: str) -> Row:
    role = values.word(item.get("role"), f"{param}.role", _ROLES)
    content = _text(item.get("content"), f"{param}.content")
    return {"role": "system" if role == "developer" else role, "content": content}


def _call(item: Row, param: str) -> Row:
    function = {
        "name": values.name(item.get("name"), f"{param}.name"),
        "arguments": values.text(item.get("arguments"), f"{param}.arguments"),
    }
    call_id = values.text(item.get("call_id"), f"{param}.call_id", longest=_MAX_ID)
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _output(item: Row, param: str) -> Row:
    return {
        "role": "tool",
        "tool_call_id": values.text(item.get("call_id"), f"{param}.call_id", longest=_MAX_ID),
        "content": _text(item.get("output"), f"{param}.output"),
    }


_KINDS: Final[dict[str, Callable[[Row, str], Row]]] = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _output,
}


def _text(value: object, param: str) -> str:
    """Return a text, or the texts of a list of parts joined as engines join them."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise invalid(f"{param} must be a string or a list of parts.", param=param)
    parts = values.array(value, param, longest=_MAX_PARTS)
    return "\n".join(_part(part, f"{param}[{index}]") for index, part in enumerate(parts))


def _part(value: object, param: str) -> str:
    part = values.mapping(value, param)
    kind = values.text(part.get("type"), f"{param}.type", longest=64)
    name = _TEXTS.get(kind)
    if name is None:
        message = f"A part of type {kind!r} is not offered: models here take text, function calls and their outputs."
        raise unsupported(message, param=f"{param}.type")
    return values.text(part.get(name), f"{param}.{name}")
