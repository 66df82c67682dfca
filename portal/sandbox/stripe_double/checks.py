"""Checks a request against the parameter types that ship with the installed SDK, and gives leaves their type.

v1 forms carry only text, so there numbers and booleans are read out of it; v2 JSON must have the right type as it is.
"""

import types
import typing
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache

import typing_extensions
from stripe import RequestOptions
from stripe._stripe_object import UntypedStripeObject

from portal.sandbox.stripe_double.faults import Body, Refusal, invalid

# Request options are not parameters, but their names come along; these two types are not known where they land.
_UNIMPORTED: dict[str, object] = {"StripeContext": str, "Mapping": Mapping}
_UNIONS = (typing.Union, types.UnionType)
_WRAPPERS = (typing_extensions.NotRequired, typing_extensions.Required, typing.NotRequired, typing.Required)


class Mismatch(Exception):
    """A value does not fit its type; `args` are the parameter's path and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


def check(params: type, body: Body, *, is_text: bool) -> Body:
    """Return the body with typed leaves. Raises Refusal as Stripe would answer."""
    try:
        return _object(params, body, "", is_text=is_text)
    except Mismatch as error:
        raise _refusal(error) from error


def _refusal(error: Mismatch) -> Refusal:
    code = {"unknown": "parameter_unknown", "missing": "parameter_missing"}.get(error.reason, "parameter_invalid")
    return invalid(f"Invalid request: {error.path}: {error.reason}", param=error.path, code=code)


@lru_cache(maxsize=512)
def _fields(params: type) -> tuple[dict[str, object], frozenset[str]]:
    options = set(RequestOptions.__annotations__)
    hints = typing.get_type_hints(params, localns=_UNIMPORTED, include_extras=True)
    required = frozenset(getattr(params, "__required_keys__", frozenset())) - options
    return {name: hint for name, hint in hints.items() if name not in options}, required


def _object(params: type, value: object, path: str, *, is_text: bool) -> Body:
    if not isinstance(value, Mapping):
        raise Mismatch(path, "must be an object")
    fields, required = _fields(params)
    for name in value:
        if name not in fields:
            raise Mismatch(_join(path, str(name)), "unknown")
    for name in required - set(value):
        raise Mismatch(_join(path, name), "missing")
    return {
        str(name): _value(fields[name], found, _join(path, str(name)), is_text=is_text) for name, found in value.items()
    }


def _join(path: str, name: str) -> str:
    return f"{path}[{name}]" if path else name


def _value(hint: object, value: object, path: str, *, is_text: bool) -> object:
    origin = typing.get_origin(hint)
    if origin in _WRAPPERS:
        return _value(typing.get_args(hint)[0], value, path, is_text=is_text)
    if origin in _UNIONS:
        return _first(typing.get_args(hint), value, path, is_text=is_text)
    if origin in (typing.Literal, typing_extensions.Literal):
        return _choice(typing.get_args(hint), value, path)
    return _plain(hint, value, path, is_text=is_text)


def _plain(hint: object, value: object, path: str, *, is_text: bool) -> object:
    origin = typing.get_origin(hint) or hint
    if origin is list:
        return _list(typing.get_args(hint)[0], value, path, is_text=is_text)
    if origin is dict:
        return _dictionary(typing.get_args(hint), value, path, is_text=is_text)
    if typing_extensions.is_typeddict(hint) and isinstance(hint, type):
        return _object(hint, value, path, is_text=is_text)
    return _leaf(hint, value, path, is_text=is_text)


def _first(choices: tuple[object, ...], value: object, path: str, *, is_text: bool) -> object:
    problem = Mismatch(path, "fits no type")
    for choice in choices:
        if typing.get_origin(choice) is UntypedStripeObject:
            continue
        try:
            return _value(choice, value, path, is_text=is_text)
        except Mismatch as error:
            problem = error
    raise problem


def _choice(choices: tuple[object, ...], value: object, path: str) -> object:
    if value in choices:
        return value
    raise Mismatch(path, f"must be one of {', '.join(map(str, choices))}")


def _list(inner: object, value: object, path: str, *, is_text: bool) -> list[object]:
    if not isinstance(value, list):
        raise Mismatch(path, "must be a list")
    return [_value(inner, item, f"{path}[{index}]", is_text=is_text) for index, item in enumerate(value)]


def _dictionary(arguments: tuple[object, ...], value: object, path: str, *, is_text: bool) -> Body:
    if not isinstance(value, Mapping):
        raise Mismatch(path, "must be an object")
    inner = arguments[1] if arguments else str
    return {str(name): _value(inner, item, _join(path, str(name)), is_text=is_text) for name, item in value.items()}


def _leaf(hint: object, value: object, path: str, *, is_text: bool) -> object:
    if hint is type(None) and value is None:
        return None
    if hint is str and isinstance(value, str):
        return value
    if is_text and isinstance(value, str):
        return _from_text(hint, value, path)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Mismatch(path, f"must be {getattr(hint, '__name__', hint)}")


def _from_text(hint: object, value: str, path: str) -> object:
    if hint is bool and value in {"true", "false"}:
        return value == "true"
    if hint is int and value.removeprefix("-").isdigit():
        return int(value)
    if hint in (float, Decimal):
        try:
            return float(value)
        except ValueError as error:
            raise Mismatch(path, "must be a number") from error
    raise Mismatch(path, f"must be {getattr(hint, '__name__', hint)}")
