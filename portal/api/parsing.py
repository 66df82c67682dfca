"""Reads JSON bodies of machines: bounded in size and depth, strict UTF-8, nothing the database could not keep."""

import math
from collections.abc import Mapping
from typing import IO, Any

import orjson
from rest_framework.parsers import BaseParser

from portal.api.errors import InvalidJson, RequestTooLarge

MAX_BODY_BYTES = 1_000_000
MAX_DEPTH = 64


class BoundedJSONParser(BaseParser):
    """See the module's promise."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Mapping[Any, Any]:
        """Return the parsed body, a JSON object. Raises RequestTooLarge, InvalidJson."""
        body = stream.read(MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            raise RequestTooLarge(f"a message is at most {MAX_BODY_BYTES} bytes")
        try:
            parsed: object = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise InvalidJson(f"the body is not JSON: {error}"[:200]) from error
        if not isinstance(parsed, dict):
            raise InvalidJson("the body is not a JSON object")
        _require_keepable(parsed)
        return parsed


def _require_keepable(value: object) -> None:
    pending: list[tuple[object, int]] = [(value, 1)]
    while pending:
        part, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidJson(f"the body is nested more than {MAX_DEPTH} levels deep")
        if isinstance(part, dict):
            pending.extend((inner, depth + 1) for pair in part.items() for inner in pair)
        elif isinstance(part, list):
            pending.extend((inner, depth + 1) for inner in part)
        elif isinstance(part, str) and "\x00" in part:
            raise InvalidJson("the body holds a NUL character")
        elif isinstance(part, float) and not math.isfinite(part):
            raise InvalidJson("the body holds a number without a finite value")
