"""The messages of a chat: rebuilt from known fields, text only."""

from dataclasses import dataclass
from typing import Any, Final

from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import values

MAX_MESSAGES: Final = 2_048
MAX_PARTS: Final = 256
MAX_CALLS: Final = 128
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
_PLAIN_ROLES: Final = frozenset({"system", "user", "assistant"})
_MEDIA: Final = frozenset({"audio_url", "file", "image_url", "input_audio", "video_url"})
_MAX_ID: Final = 128


@dataclass(frozen=True, slots=True)
class Conversation:
    """Cleaned messages, the bytes of their text, and whether they are plain enough to bound without rendering."""

    messages: list[dict[str, Any]]
    content_bytes: int
    is_plain: bool


def conversation(value: object) -> Conversation:
    """Return the cleaned messages. Raises ApiError naming the first that cannot be used."""
    rows = values.array(value, "messages", longest=MAX_MESSAGES, shortest=1)
    cleaned = [_message(row, f"messages[{index}]") for index, row in enumerate(rows)]
    content_bytes = sum(len(row["content"].encode()) for row in cleaned if row["content"])
    is_plain = all(len(row) == 2 and row["role"] in _PLAIN_ROLES for row in cleaned)  # noqa: PLR2004  role, content
    return Conversation(messages=cleaned, content_bytes=content_bytes, is_plain=is_plain)


def _message(value: object, param: str) -> dict[str, Any]:
    row = values.mapping(value, param)
    if row.get("role") == "function":
        raise unsupported("The role function is retired; use tool.", param=f"{param}.role")
    role = values.word(row.get("role"), f"{param}.role", _ROLES)
    cleaned: dict[str, Any] = {"role": "system" if role == "developer" else role}
    cleaned["content"] = _content(row.get("content"), f"{param}.content", may_be_null=bool(row.get("tool_calls")))
    if row.get("name") is not None:
        cleaned["name"] = values.text(row["name"], f"{param}.name", longest=64)
    if role == "assistant" and row.get("tool_calls") is not None:
        calls = values.array(row["tool_calls"], f"{param}.tool_calls", longest=MAX_CALLS, shortest=1)
        cleaned["tool_calls"] = [_call(call, f"{param}.tool_calls[{n}]") for n, call in enumerate(calls)]
    if role == "tool":
        cleaned["tool_call_id"] = values.text(row.get("tool_call_id"), f"{param}.tool_call_id", longest=_MAX_ID)
    return cleaned


def _content(value: object, param: str, *, may_be_null: bool) -> str | None:
    if isinstance(value, str):
        return value
    if value is None and may_be_null:
        return None
    if not isinstance(value, list):
        return values.text(value, param)
    parts = values.array(value, param, longest=MAX_PARTS, shortest=1)
    # As vLLM joins them for templates that take text.
    return "\n".join(_part(part, f"{param}[{index}]") for index, part in enumerate(parts))


def _part(value: object, param: str) -> str:
    part = values.mapping(value, param)
    kind = part.get("type")
    if kind == "text":
        return values.text(part.get("text"), f"{param}.text")
    if kind == "refusal":
        return values.text(part.get("refusal"), f"{param}.refusal")
    if isinstance(kind, str):
        raise unsupported(_refusal(kind, part.get(kind)), param=f"{param}.type")
    raise invalid(f"{param}.type must be text.", param=f"{param}.type")


def _refusal(kind: str, medium: object) -> str:
    """Say why a part is not taken: what a node fetches for strangers, and what nobody can bound, is not."""
    if kind not in _MEDIA:
        return f"This model takes text; a part of type {kind[:40]!r} is not offered."
    address = medium.get("url") if isinstance(medium, dict) else medium
    if isinstance(address, str) and not address.startswith("data:"):
        return f"A part of type {kind!r} names an address, and nodes fetch nothing for anybody. Send its text instead."
    return (
        f"A part of type {kind!r} is not offered: for no model here is it known how many tokens it makes at most, so "
        "that it could not be held for and paid. Send its text instead, or ask the operator for another model."
    )


def _call(value: object, param: str) -> dict[str, Any]:
    row = values.mapping(value, param)
    if row.get("type", "function") != "function":
        raise unsupported(f"{param}.type must be function.", param=f"{param}.type")
    function = values.mapping(row.get("function"), f"{param}.function")
    return {
        "id": values.text(row.get("id"), f"{param}.id", longest=_MAX_ID),
        "type": "function",
        "function": {
            "name": values.name(function.get("name"), f"{param}.function.name"),
            "arguments": values.text(function.get("arguments"), f"{param}.function.arguments"),
        },
    }
