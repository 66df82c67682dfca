"""A node's answer in our words: rebuilt from known fields, with our ids and names; its counts are kept as claims."""

from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from portal.gateway.contracts import Claim
from portal.gateway.dialects.base import Names
from portal.gateway.failures import broke

_FINISH: Final = frozenset({"stop", "length", "tool_calls", "content_filter"})
_REASONING: Final = ("reasoning", "reasoning_content")
_MAX_COUNT: Final = 2**31 - 1
_MAX_CALLS: Final = 256
_MAX_NAME: Final = 256
_MAX_TOKEN: Final = 1_024
_MAX_TOP: Final = 21  # the twenty that can be asked for, and the sampled token where it is not among them
_MAX_OCTET: Final = 255
_NO_COUNT: Final = "usage_invalid"


@dataclass(slots=True)
class Generated:
    """What one event or answer brought: the rebuilt choices, the text in them and how many choices it ended."""

    choices: list[dict[str, Any]] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)
    finished: int = 0
    vectors: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing came that a customer could use."""
        return not (self.texts or self.vectors)


def parse(data: bytes) -> dict[str, Any]:
    """Parse a node's JSON. Raises NodeFailed."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise broke("answer_not_json") from error
    if not isinstance(value, dict):
        raise broke("answer_not_an_object")
    if value.get("error") is not None:
        raise broke("engine_error")
    return value


def take_claim(value: dict[str, Any], claim: Claim) -> None:
    """Keep the newest counts the node states; never a sum, and absent is not zero."""
    usage = value.get("usage")
    if not isinstance(usage, dict):
        if usage is not None:
            claim.note(_NO_COUNT)
        return
    claim.prompt = _count(usage.get("prompt_tokens"), claim.prompt, claim)
    claim.completion = _count(usage.get("completion_tokens"), claim.completion, claim)
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        claim.cached = _count(details.get("cached_tokens"), claim.cached, claim)


def take_event_claim(value: dict[str, Any], claim: Claim) -> None:
    """Keep the counts of an event with `usage`. One without choices closes the counts; `choices` may be left out."""
    take_claim(value, claim)
    if value.get("choices"):
        return
    if claim.is_closing_stated:
        claim.note("usage_repeated")
    claim.is_closing_stated = True
    if value.get("choices") is None:
        claim.note("usage_without_choices")
        value["choices"] = []


def plain_text(value: dict[str, Any], names: Names) -> str | None:
    """Return the text of an event that brings the only choice text and nothing else; None: it must be rebuilt."""
    rows = value.get("choices")
    if names.choices != 1 or type(rows) is not list or len(rows) != 1:
        return None
    row = rows[0]
    if type(row) is not dict or row.get("finish_reason") is not None:
        return None
    index, delta = row.get("index", 0), row.get("delta")
    if type(index) is not int or index or type(delta) is not dict or len(delta) != 1:
        return None
    if names.has_logprobs and row.get("logprobs") is not None:
        return None
    text = delta.get("content")
    return text if type(text) is str and text else None


def chunk(value: dict[str, Any], names: Names) -> Generated:
    """Rebuild one event of a stream. Raises NodeFailed."""
    return _generated(value, names, "delta")


def answer(value: dict[str, Any], names: Names) -> Generated:
    """Rebuild a whole answer. Raises NodeFailed."""
    found = _generated(value, names, "message")
    if len(found.choices) != names.choices or found.finished != names.choices:
        raise broke("answer_incomplete")
    return found


def _generated(value: dict[str, Any], names: Names, part: str) -> Generated:
    rows = value.get("choices")
    if not isinstance(rows, list):
        raise broke("answer_without_choices")
    found = Generated()
    for row in rows:
        if not isinstance(row, dict):
            raise broke("choice_not_an_object")
        index = row.get("index", 0)
        if type(index) is not int or not 0 <= index < names.choices:
            raise broke("choice_index")
        inner = row.get(part)
        rebuilt: dict[str, Any] = {"index": index, part: _message(inner, found, index, is_delta=part == "delta")}
        rebuilt["logprobs"] = _logprobs(row.get("logprobs"), names)
        rebuilt["finish_reason"] = reason = row.get("finish_reason")
        if reason is not None:
            rebuilt["finish_reason"] = reason if isinstance(reason, str) and reason in _FINISH else "stop"
            found.finished += 1
            if names.stops and isinstance(row.get("stop_reason"), str) and row["stop_reason"] in names.stops:
                rebuilt["stop_reason"] = row["stop_reason"]
        found.choices.append(rebuilt)
    return found


def _message(value: object, found: Generated, index: int, *, is_delta: bool) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise broke("choice_without_text")
    rebuilt: dict[str, Any] = {} if is_delta else {"role": "assistant", "content": None, "refusal": None}
    if is_delta and value.get("role") is not None:
        rebuilt["role"] = "assistant"
    for name in ("content", "refusal", *_REASONING):
        text = value.get(name)
        if text is None:
            continue
        if not isinstance(text, str):
            raise broke("text_not_a_string")
        rebuilt[name] = text
        if text:
            found.texts.append((index, text))
    calls = value.get("tool_calls")
    if calls:
        rebuilt["tool_calls"] = _calls(calls, found, index, is_delta=is_delta)
    return rebuilt


def _calls(value: object, found: Generated, index: int, *, is_delta: bool) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > _MAX_CALLS:
        raise broke("tool_calls")
    rebuilt = []
    for position, call in enumerate(value):
        if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
            raise broke("tool_call")
        function: dict[str, Any] = {}
        for name in ("name", "arguments"):
            text = call["function"].get(name)
            if text is None:
                continue
            if not isinstance(text, str) or (name == "name" and len(text) > _MAX_NAME):
                raise broke("tool_call_text")
            function[name] = text
            found.texts.append((index, text))
        row: dict[str, Any] = {"function": function}
        if is_delta:
            number = call.get("index", position)
            row["index"] = number if isinstance(number, int) and 0 <= number < _MAX_CALLS else position
        if isinstance(call.get("id"), str):
            row["id"] = call["id"][:_MAX_NAME]
        if not is_delta or "id" in row:
            row["type"] = "function"
        rebuilt.append(row)
    return rebuilt


def _logprobs(value: object, names: Names) -> dict[str, Any] | None:
    if not names.has_logprobs or not isinstance(value, dict):
        return None
    rows = value.get("content")
    if not isinstance(rows, list):
        return {"content": None, "refusal": None}
    return {"content": [_logprob(row, with_top=True) for row in rows], "refusal": None}


def _logprob(row: object, *, with_top: bool) -> dict[str, Any]:
    """Rebuild what is known of one token: a node's own words would be passed on unread."""
    if not isinstance(row, dict) or not isinstance(row.get("token"), str) or len(row["token"]) > _MAX_TOKEN:
        raise broke("logprobs")
    number, octets = row.get("logprob"), row.get("bytes")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise broke("logprobs")
    if octets is not None and not _are_octets(octets):
        raise broke("logprobs")
    rebuilt: dict[str, Any] = {"token": row["token"], "logprob": number, "bytes": octets}
    if with_top:
        top = row.get("top_logprobs") or []
        if not isinstance(top, list) or len(top) > _MAX_TOP:
            raise broke("logprobs")
        rebuilt["top_logprobs"] = [_logprob(one, with_top=False) for one in top]
    return rebuilt


def _are_octets(value: object) -> bool:
    if not isinstance(value, list) or len(value) > _MAX_TOKEN:
        return False
    return all(type(octet) is int and 0 <= octet <= _MAX_OCTET for octet in value)


def _count(value: object, known: int | None, claim: Claim) -> int | None:
    if type(value) is int and 0 <= value <= _MAX_COUNT:
        return value
    if value is not None:
        claim.note(_NO_COUNT)
    return known
