"""A node's text completions in our words: rebuilt from known fields."""

from collections.abc import Callable
from typing import Any, Final

from portal.gateway.dialects.base import Names
from portal.gateway.failures import broke
from portal.gateway.rewrite import Generated

_FINISH: Final = frozenset({"stop", "length", "content_filter"})
_MAX_TOKENS: Final = 65_536
_MAX_TOKEN: Final = 1_024
_MAX_TOP: Final = 6  # the five that can be asked for, and the sampled token where it is not among them


def chunk(value: dict[str, Any], names: Names) -> Generated:
    """Rebuild one event of a stream. Raises NodeFailed."""
    rows = value.get("choices")
    if not isinstance(rows, list):
        raise broke("answer_without_choices")
    found = Generated()
    for row in rows:
        _take(row, names, found)
    return found


def answer(value: dict[str, Any], names: Names) -> Generated:
    """Rebuild a whole answer. Raises NodeFailed."""
    found = chunk(value, names)
    indexes = {choice["index"] for choice in found.choices}
    if len(found.choices) != names.choices or len(indexes) != names.choices or found.finished != names.choices:
        raise broke("answer_incomplete")
    found.choices.sort(key=_by_index)
    return found


def _by_index(choice: dict[str, Any]) -> int:
    index: int = choice["index"]
    return index


def _take(row: object, names: Names, found: Generated) -> None:
    if not isinstance(row, dict):
        raise broke("choice_not_an_object")
    index, text, reason = row.get("index", 0), row.get("text"), row.get("finish_reason")
    if type(index) is not int or not 0 <= index < names.choices:
        raise broke("choice_index")
    if not isinstance(text, str):
        raise broke("choice_without_text")
    if text:
        found.texts.append((index, text))
    if reason is not None:
        reason = reason if isinstance(reason, str) and reason in _FINISH else "stop"
        found.finished += 1
    logprobs = _logprobs(row.get("logprobs")) if names.has_logprobs else None
    found.choices.append({"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason})


def _logprobs(value: object) -> dict[str, Any] | None:
    """Rebuild the four lists, one entry a token each: a node's own words would be passed on unread."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise broke("logprobs")
    tokens = value.get("tokens")
    if not isinstance(tokens, list) or len(tokens) > _MAX_TOKENS or not all(map(_is_token, tokens)):
        raise broke("logprobs")
    return {
        "text_offset": _each(value.get("text_offset"), len(tokens), _is_offset),
        "token_logprobs": _each(value.get("token_logprobs"), len(tokens), _is_number_or_none),
        "tokens": tokens,
        "top_logprobs": _each(value.get("top_logprobs"), len(tokens), _is_top_or_none),
    }


def _each(value: object, count: int, is_good: Callable[[object], bool]) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != count or not all(map(is_good, value)):
        raise broke("logprobs")
    return value


def _is_token(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_TOKEN


def _is_offset(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_number_or_none(value: object) -> bool:
    return value is None or _is_number(value)


def _is_top_or_none(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, dict) or len(value) > _MAX_TOP:
        return False
    return all(map(_is_token, value)) and all(map(_is_number, value.values()))
