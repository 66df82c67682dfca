"""Typed access to JSON that a stranger sent."""

import re
from collections.abc import Mapping
from typing import Any

from poolhouse_agent.errors import PortalError

# What makes a terminal do something, or a line read otherwise than it is written.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text with a space in place of every control character: it may be shown on the owner's terminal."""
    return _CONTROL.sub(" ", text)


class Reader:
    """Reads fields of one JSON object. Every method raises PortalError `portal_protocol` on a wrong type."""

    def __init__(self, value: object, *, where: str) -> None:
        if not isinstance(value, Mapping):
            raise PortalError("portal_error", f"{where} is not a JSON object")
        self._value: Mapping[str, Any] = value
        self._where = where

    def text(self, name: str, *, default: str | None = None, limit: int = 4096) -> str:
        """A text of at most `limit` characters, without control characters."""
        value = self._get(name, default)
        if not isinstance(value, str) or len(value) > limit or _CONTROL.search(value):
            raise self._wrong(name, f"a text of at most {limit} plain characters")
        return value

    def words(self, name: str, *, limit: int) -> str:
        """A text for people of at most `limit` characters; control characters read as spaces, missing is empty."""
        value = self._get(name, "")
        if not isinstance(value, str) or len(value) > limit:
            raise self._wrong(name, f"a text of at most {limit} characters")
        return plain(value)

    def whole(self, name: str, *, low: int, high: int, default: int | None = None) -> int:
        """A whole number from `low` to `high`."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._wrong(name, f"a whole number from {low} to {high}")
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def table(self, name: str) -> dict[str, Any]:
        """A JSON object; missing is empty."""
        value = self._get(name, {})
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    def items(self, name: str, *, limit: int) -> list[Any]:
        """A list of at most `limit` items; missing is empty."""
        value = self._get(name, [])
        if not isinstance(value, list) or len(value) > limit:
            raise self._wrong(name, f"a list of at most {limit} items")
        return value

    def _get(self, name: str, default: object) -> Any:
        value = self._value.get(name)
        return default if value is None else value

    def _wrong(self, name: str, wanted: str) -> PortalError:
        return PortalError("portal_error", f"`{name}` of {self._where} is not {wanted}")
