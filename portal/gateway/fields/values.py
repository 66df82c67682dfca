"""Checks of single values; each returns the value or raises ApiError invalid_value naming the parameter."""

import math
import re
from typing import Any, Final

from portal.gateway.errors import invalid

_INT64: Final = 2**63
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_MAX_SHOWN: Final = 40


def boolean(value: object, param: str) -> bool:
    """Return a boolean."""
    if isinstance(value, bool):
        return value
    raise _wrong(value, param, "true or false")


def whole(value: object, param: str, *, low: int = -_INT64, high: int = _INT64 - 1) -> int:
    """Return a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, param, "a whole number")
    if not low <= value <= high:
        raise invalid(f"{param} must be between {low} and {high}; it is {value}.", param=param)
    return value


def number(value: object, param: str, *, low: float, high: float) -> float:
    """Return a finite number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(value, param, "a number")
    if not (math.isfinite(value) and low <= value <= high):
        raise invalid(f"{param} must be between {low:g} and {high:g}.", param=param)
    return value


def text(value: object, param: str, *, longest: int | None = None) -> str:
    """Return a string of at most `longest` characters."""
    if not isinstance(value, str):
        raise _wrong(value, param, "a string")
    if longest is not None and len(value) > longest:
        raise invalid(f"{param} has {len(value)} characters; at most {longest}.", param=param)
    return value


def word(value: object, param: str, allowed: frozenset[str]) -> str:
    """Return one of the allowed words."""
    if isinstance(value, str) and value in allowed:
        return value
    raise _wrong(value, param, f"one of {', '.join(sorted(allowed))}")


def name(value: object, param: str) -> str:
    """Return a function's or schema's name."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise _wrong(value, param, "1 to 128 letters, digits, _ or -")


def array(value: object, param: str, *, longest: int, shortest: int = 0) -> list[Any]:
    """Return a list of bounded length."""
    if not isinstance(value, list):
        raise _wrong(value, param, "a list")
    if not shortest <= len(value) <= longest:
        raise invalid(f"{param} must have {shortest} to {longest} entries; it has {len(value)}.", param=param)
    return value


def mapping(value: object, param: str) -> dict[str, Any]:
    """Return an object."""
    if isinstance(value, dict):
        return value
    raise _wrong(value, param, "an object")


def only(value: dict[str, Any], param: str, known: frozenset[str]) -> None:
    """Refuse names that the object does not have."""
    for key in value:
        if key not in known:
            raise invalid(f"{param} has no field {key[:_MAX_SHOWN]!r}.", param=f"{param}.{key[:_MAX_SHOWN]}")


def _wrong(value: object, param: str, expected: str) -> Exception:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    got = "null" if value is None else kinds.get(type(value), "something else")
    return invalid(f"{param} must be {expected}; got {got}.", param=param)
