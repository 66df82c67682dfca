"""Takes fields out of Stripe's objects. Absent fields read as empty: v2 leaves out what was not asked for."""

from collections.abc import Mapping
from datetime import UTC, datetime

Body = Mapping[str, object]


def at(body: object, *path: str) -> object:
    """Return what lies at the path, or None."""
    for step in path:
        if not isinstance(body, Mapping):
            return None
        body = body.get(step)
    return body


def text(body: object, *path: str) -> str:
    """Return a text, empty where there is none."""
    value = at(body, *path)
    return value if isinstance(value, str) else ""


def number(body: object, *path: str) -> int:
    """Return a whole number. Raises TypeError."""
    value = at(body, *path)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{'.'.join(path)} is not a whole number")
    return value


def number_or_zero(body: object, *path: str) -> int:
    """Return a whole number, 0 where there is none."""
    return number(body, *path) if at(body, *path) is not None else 0


def items(body: object, *path: str) -> list[object]:
    """Return a list, empty where there is none."""
    value = at(body, *path)
    return value if isinstance(value, list) else []


def names(body: object, *path: str) -> tuple[str, ...]:
    """Return a list of texts."""
    return tuple(str(one) for one in items(body, *path))


def ident(body: object, *path: str) -> str:
    """Return the id of a field that is either the id or, expanded, the object."""
    value = at(body, *path)
    return value if isinstance(value, str) else text(value, "id")


def seconds(body: object, *path: str) -> datetime:
    """Return a time of the first API. Raises TypeError."""
    return datetime.fromtimestamp(number(body, *path), UTC)


def seconds_or_none(body: object, *path: str) -> datetime | None:
    """Return a time of the first API where there is one."""
    return seconds(body, *path) if at(body, *path) is not None else None


def moment(value: str) -> datetime | None:
    """Return a time of the second API where there is one."""
    return datetime.fromisoformat(value) if value else None


def is_true(body: object, *path: str) -> bool:
    """Tell whether the field says `true`."""
    return at(body, *path) is True
