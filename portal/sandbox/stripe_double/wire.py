"""Reads Stripe's two request encodings: bracketed forms (v1) and JSON (v2)."""

import json
from urllib.parse import parse_qsl

from portal.sandbox.stripe_double.faults import Body, invalid


def read_form(text: str) -> Body:
    """Decode `a[b][0]=c` into nested objects and lists; every leaf stays text."""
    root: Body = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        _put(root, _steps(name), value)
    return {name: _lists(value) for name, value in root.items()}


def _steps(name: str) -> list[str]:
    head, bracket, rest = name.partition("[")
    if not bracket:
        return [head]
    if not rest.endswith("]"):
        raise invalid(f"Invalid parameter name: {name}", param=name)
    return [head, *rest[:-1].split("][")]


def _put(root: Body, steps: list[str], value: str) -> None:
    place = root
    for step in steps[:-1]:
        inner = place.setdefault(step or str(len(place)), {})
        if not isinstance(inner, dict):
            raise invalid("A parameter is both a value and an object", param=steps[0])
        place = inner
    place[steps[-1] or str(len(place))] = value


def _lists(value: object) -> object:
    if not isinstance(value, dict):
        return value
    inner = {name: _lists(found) for name, found in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def read_json(raw: bytes) -> Body:
    """Decode a JSON object; an empty body is an empty object."""
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise invalid("The request body is not valid JSON") from error
    if not isinstance(body, dict):
        raise invalid("The request body must be a JSON object")
    return body
