"""Reads the golden messages; the agent's tests and the portal's read the same files.

A golden of an exchange has `request` (path, authorization, body) and `response` (status, body). `volatile` names the
fields of the response whose value differs each time: there only the type, and `prefix` where given, is compared.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "v1"
RELEASED = Path(__file__).parent / "released"  # the messages of each minor release as it came out; never changed
PREVIOUS = sorted(path.name for path in RELEASED.iterdir())
_FREE = frozenset({"host", "host_missing", "values", "missing", "counters", "engine_args", "settings"})


def golden(name: str) -> dict[str, Any]:
    """Return one golden by its file's name without `.json`."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def released(name: str, release: str) -> dict[str, Any] | None:
    """Return a golden as a minor release had it, or None where it had none."""
    file = RELEASED / release / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def from_the_future(value: Any) -> Any:
    """Return a message with a field that nobody knows yet in each of its objects; free tables stay as they are."""
    if isinstance(value, list):
        return [from_the_future(item) for item in value]
    if not isinstance(value, dict):
        return value
    told = {name: item if name in _FREE else from_the_future(item) for name, item in value.items()}
    return {**told, "not_known_yet": {"nested": [1, "two", None]}}


def holds(body: Any, wanted: Any) -> bool:
    """Tell whether a body has everything that is wanted, and perhaps more."""
    if isinstance(wanted, dict):
        return isinstance(body, dict) and all(name in body and holds(body[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return len(body) == len(wanted) and all(holds(one, other) for one, other in zip(body, wanted, strict=True))
    return bool(body == wanted)


def names(prefix: str = "") -> list[str]:
    """Return the names of all goldens that begin with `prefix`."""
    return sorted(file.stem for file in FOLDER.glob(f"{prefix}*.json"))


def assert_matches(name: str, *, status: int, body: object) -> None:
    """Assert that a real answer is the golden one, up to its volatile fields."""
    wanted = golden(name)
    assert status == wanted["response"]["status"]
    assert masked(body, wanted["volatile"]) == masked(wanted["response"]["body"], wanted["volatile"])


def masked(body: object, volatile: dict[str, str]) -> object:
    """Return the body with volatile fields replaced by their type and expected prefix."""
    if isinstance(body, dict):
        return {name: _mask(value, volatile.get(name)) if name in volatile else masked(value, volatile)
                for name, value in body.items()}  # fmt: skip
    if isinstance(body, list):
        return [masked(item, volatile) for item in body]
    return body


def _mask(value: object, prefix: str | None) -> str:
    assert isinstance(value, str), value
    assert value.startswith(prefix or ""), value
    return f"<{type(value).__name__} {prefix or ''}>"
