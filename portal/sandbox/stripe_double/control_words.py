"""Reads the bodies of the control API."""

from portal.sandbox.stripe_double.faults import Body, invalid


def number(body: Body, name: str, *, default: int | None = None) -> int:
    """Return a whole number. Raises Refusal."""
    value = body.get(name, default)
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(f"{name} must be a whole number", param=name)
    return value


def word(body: Body, name: str, allowed: "set[str] | frozenset[str]", *, default: str = "") -> str:
    """Return one of the allowed words. Raises Refusal."""
    value = str(body.get(name, default))
    if value not in allowed:
        raise invalid(f"{name} must be one of {', '.join(sorted(allowed))}", param=name)
    return value


def text(body: Body, name: str) -> str:
    """Return a text, empty where it is missing."""
    return str(body.get(name) or "")


def flag(body: Body, name: str, *, default: bool) -> bool:
    """Return a yes or no: JSON's, or a form's word."""
    return str(body.get(name, default)).lower() in {"true", "1", "yes"}
