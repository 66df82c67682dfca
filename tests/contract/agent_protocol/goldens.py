"""Reads the golden messages; the agent's tests and the portal's read the same files.

A golden of an exchange has `request` (path, authorization, body) and `response` (status, body). `volatile` names the
fields of the response whose value differs each time: there only the type, and `prefix` where given, is compared.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "v1"


def golden(name: str) -> dict[str, Any]:
    """Return one golden by its file's name without `.json`."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


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
