"""The conversation of a `/v1/messages` request as a chat's messages, which are text and calls."""

from typing import Any, Final

import orjson

from portal.gateway.dialects.translated import Notes, add_turn
from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import values
from portal.gateway.fields.messages import MAX_MESSAGES

_MAX_BLOCKS: Final = 2_048
_MAX_ID: Final = 128
_ROLES: Final = frozenset({"assistant", "system", "user"})
_ATTRIBUTION: Final = "x-anthropic-billing-header"
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})

Row = dict[str, Any]
Blocks = list[tuple[str, str, Row]]


def messages(raw: dict[str, Any], notes: Notes) -> list[Row]:
    """Return the chat's messages. Raises ApiError naming what cannot be said in a chat."""
    rows: list[Row] = []
    if raw.get("system") is not None:
        system = _system(raw["system"], notes)
        if system:
            rows.append({"role": "system", "content": system})
    turns = values.array(raw.get("messages"), "messages", longest=MAX_MESSAGES, shortest=1)
    role = ""
    for index, turn in enumerate(turns):
        role = _turn(turn, f"messages[{index}]", rows, notes)
    if role == "assistant":
        message = "The last message must be the user's: a text of the assistant's is not continued here."
        raise unsupported(message, param=f"messages[{len(turns) - 1}].role")
    return rows


def _system(value: object, notes: Notes) -> str:
    """Return the system prompt without the line that tells a provider whose client it is.

    It differs from request to request and would keep the rest of the prompt out of every prefix cache.
    """
    if not isinstance(value, list):
        return _text(value, "system", notes)
    rest = [block for block in value if not _is_attribution(block)]
    if len(rest) < len(value):
        notes.ignore(f"system.{_ATTRIBUTION}")
    return _text(rest, "system", notes)


def _is_attribution(block: object) -> bool:
    text = block.get("text") if isinstance(block, dict) else None
    return isinstance(text, str) and text.startswith(f"{_ATTRIBUTION}:")


def _turn(value: object, param: str, rows: list[Row], notes: Notes) -> str:
    turn = values.mapping(value, param)
    role = values.word(turn.get("role"), f"{param}.role", _ROLES)
    content = turn.get("content")
    if isinstance(content, str):
        add_turn(rows, {"role": role, "content": content})
    elif role == "system":
        add_turn(rows, {"role": role, "content": _text(content, f"{param}.content", notes)})
    elif role == "assistant":
        add_turn(rows, _assistant(_blocks(content, f"{param}.content", notes), notes))
    else:
        for row in _user(_blocks(content, f"{param}.content", notes), notes):
            add_turn(rows, row)
    return role


def _assistant(blocks: Blocks, notes: Notes) -> Row:
    texts: list[str] = []
    calls: list[Row] = []
    for kind, param, block in blocks:
        if kind == "text":
            texts.append(values.text(block.get("text"), f"{param}.text"))
        elif kind == "tool_use":
            calls.append(_call(block, param))
        elif kind in _THOUGHTS:
            notes.ignore(f"messages.content.{kind}")
        else:
            raise _not_offered(kind, param)
    if calls:
        return {"role": "assistant", "content": "\n".join(texts) if texts else None, "tool_calls": calls}
    return {"role": "assistant", "content": "\n".join(texts)}


def _call(block: Row, param: str) -> Row:
    arguments = values.mapping(block.get("input"), f"{param}.input")
    name = values.name(block.get("name"), f"{param}.name")
    return {
        "id": values.text(block.get("id"), f"{param}.id", longest=_MAX_ID),
        "type": "function",
        "function": {"name": name, "arguments": orjson.dumps(arguments).decode()},
    }


def _user(blocks: Blocks, notes: Notes) -> list[Row]:
    """Return the results of tools and the texts between them, in their order."""
    rows: list[Row] = []
    for kind, param, block in blocks:
        if kind == "text":
            add_turn(rows, {"role": "user", "content": values.text(block.get("text"), f"{param}.text")})
        elif kind == "tool_result":
            rows.append(_result(block, param, notes))
        else:
            raise _not_offered(kind, param)
    return rows


def _result(block: Row, param: str, notes: Notes) -> Row:
    content = block.get("content")
    if block.get("is_error"):
        notes.ignore("messages.content.is_error")
    return {
        "role": "tool",
        "tool_call_id": values.text(block.get("tool_use_id"), f"{param}.tool_use_id", longest=_MAX_ID),
        "content": "" if content is None else _text(content, f"{param}.content", notes),
    }


def _text(value: object, param: str, notes: Notes) -> str:
    """Return a text, or the texts of a list of text blocks joined as engines join them."""
    if isinstance(value, str):
        return value
    texts = []
    for kind, where, block in _blocks(value, param, notes):
        if kind != "text":
            raise _not_offered(kind, where)
        texts.append(values.text(block.get("text"), f"{where}.text"))
    return "\n".join(texts)


def _blocks(value: object, param: str, notes: Notes) -> Blocks:
    if not isinstance(value, list):
        raise invalid(f"{param} must be a string or a list of blocks.", param=param)
    found: Blocks = []
    for index, item in enumerate(values.array(value, param, longest=_MAX_BLOCKS)):
        where = f"{param}[{index}]"
        block = values.mapping(item, where)
        if block.get("cache_control") is not None:
            notes.ignore("cache_control")
        found.append((values.text(block.get("type"), f"{where}.type", longest=64), where, block))
    return found


def _not_offered(kind: str, param: str) -> Exception:
    message = f"A block of type {kind!r} is not offered: models here take text, tool calls and their results."
    return unsupported(message, param=f"{param}.type")
