"""Serializer fields that take a JSON type as it is: no number from a text, no text from a number."""

from typing import Any

from rest_framework import serializers

MAX_BIGINT = 2**63 - 1
_MOST_ENTRIES = 96
_LONGEST_TEXT = 400


class Text(serializers.CharField):
    """A JSON string; with `cut` a longer one is cut rather than refused, since a report must always get through."""

    def __init__(self, *, cut: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.cut = cut

    def to_internal_value(self, data: Any) -> str:
        """Return the text."""
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data[: self.cut] if self.cut else data)


class Whole(serializers.IntegerField):
    """A JSON integer within BIGINT."""

    def __init__(self, *, min_value: int = 0, max_value: int = MAX_BIGINT, **options: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **options)

    def to_internal_value(self, data: Any) -> int:
        """Return the number."""
        if type(data) is not int:
            self.fail("invalid")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    """A JSON boolean."""

    def to_internal_value(self, data: Any) -> bool:
        """Return the flag."""
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Readings(serializers.DictField):
    """Named readings: JSON scalars and short lists of them; what is neither, and what is too many, is left out."""

    def to_internal_value(self, data: Any) -> dict[str, object]:
        """Return the readings that can be kept."""
        if not isinstance(data, dict):
            self.fail("not_a_dict", input_type=type(data).__name__)
        first = list(data.items())[:_MOST_ENTRIES]
        return {str(name)[:64]: _cut(value) for name, value in first if _is_reading(value)}


def _is_reading(value: object) -> bool:
    if isinstance(value, list):
        return len(value) <= _MOST_ENTRIES and not any(isinstance(item, list | dict) for item in value)
    return not isinstance(value, dict)


def _cut(value: object) -> object:
    if isinstance(value, list):
        return [_cut(item) for item in value]
    return value[:_LONGEST_TEXT] if isinstance(value, str) else value
