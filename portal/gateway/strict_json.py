"""Reads a request's JSON: its depth is known before anything is built from it."""

import re
from typing import Any, Final

import orjson

from portal.gateway.errors import INVALID_REQUEST, ApiError, invalid

MAX_DEPTH: Final = 64
_NOT_BRACKETS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^\[\]{}"]+', re.DOTALL)
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the body's JSON object. Raises ApiError invalid_json or invalid_value."""
    if depth_exceeds(body, MAX_DEPTH):
        raise _invalid(f"The JSON is nested deeper than {MAX_DEPTH} levels.")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _invalid(f"The body is not valid JSON in UTF-8: {_reason(error)}.") from error
    if not isinstance(value, dict):
        raise invalid("The body must be a JSON object.")
    return value


def depth_exceeds(body: bytes, limit: int) -> bool:
    """Return whether brackets outside strings nest deeper than `limit`; malformed nesting is left to the parser."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    brackets = _NOT_BRACKETS.sub(b"", body).translate(_ONE_KIND)
    for _ in range(limit):
        outer = brackets.replace(b"[]", b"")  # each pass takes the innermost level away
        if len(outer) == len(brackets):
            return False
        brackets = outer
    return b"[" in brackets


def _reason(error: orjson.JSONDecodeError) -> str:
    return str(error.msg).rstrip(".")[:120]


def _invalid(message: str) -> ApiError:
    return ApiError(400, INVALID_REQUEST, "invalid_json", message)
