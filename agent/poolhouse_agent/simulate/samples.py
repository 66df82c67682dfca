"""Makes a value that conforms to a JSON schema, from the words of the question."""

import random
from collections.abc import Callable, Mapping
from typing import Any

_MAX_DEPTH = 12
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})


class BadSchema(Exception):
    """The schema cannot be followed; the text is what vLLM's grammar compiler would say."""


class Sampler:
    """Draws values; the same question and seed give the same value."""

    def __init__(self, schema: Mapping[str, Any], *, question: str, seed: int) -> None:
        self._root = schema
        self._dice = random.Random(f"{seed}:{question}")  # noqa: S311  text, not secrets
        self._words = [word.strip(".,?!:;\"'()") for word in question.split()][:200] or ["answer"]

    def sample(self) -> Any:
        """Return a conforming value. Raises BadSchema."""
        return self._value(self._root, 0)

    def _value(self, schema: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise BadSchema("Grammar error: schema is nested too deeply")
        if schema is True or schema == {}:
            return self._word()
        if not isinstance(schema, Mapping):
            raise BadSchema("Grammar error: a schema must be an object")
        if "$ref" in schema:
            return self._value(self._resolve(str(schema["$ref"])), depth + 1)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._dice.choice(list(schema["enum"]))
        for name in ("anyOf", "oneOf", "allOf"):
            if schema.get(name):
                return self._value(schema[name][0], depth + 1)
        return self._typed(schema, depth)

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        if kind not in _TYPES:
            raise BadSchema(f"Grammar error: Invalid type: {kind}")
        makers: dict[str, Callable[[], Any]] = {
            "object": lambda: self._object(schema, depth),
            "array": lambda: self._array(schema, depth),
            "integer": lambda: self._integer(schema),
            "number": lambda: float(self._integer(schema)) + (0.5 if "maximum" not in schema else 0.0),
            "boolean": lambda: self._dice.choice((True, False)),
            "null": lambda: None,
            "string": lambda: self._text(schema),
        }
        return makers[kind]()

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        low = int(schema.get("minItems", 1))
        count = min(max(low, 2), int(schema.get("maxItems", max(low, 2))))
        return [self._value(schema.get("items", True), depth + 1) for _ in range(count)]

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = [name for name in schema.get("required", ()) if name not in properties]
        value = {name: self._value(inner, depth + 1) for name, inner in properties.items()}
        return value | {name: self._word() for name in required}

    def _integer(self, schema: Mapping[str, Any]) -> int:
        low = int(schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1))
        high = int(schema.get("maximum", schema.get("exclusiveMaximum", low + 100) - 1))
        step = int(schema.get("multipleOf", 1)) or 1
        first = -(-low // step) * step
        return first + step * self._dice.randint(0, max(0, (high - first) // step))

    def _text(self, schema: Mapping[str, Any]) -> str:
        fixed = {"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "email": "someone@example.com"}
        if schema.get("format") in fixed:
            return fixed[schema["format"]]
        text = " ".join(self._word() for _ in range(self._dice.randint(1, 3)))
        text = text.ljust(int(schema.get("minLength", 0)), "x")
        return text[: int(schema.get("maxLength", 200))]

    def _word(self) -> str:
        return self._dice.choice(self._words)

    def _resolve(self, reference: str) -> Any:
        found: Any = self._root
        for part in reference.removeprefix("#/").split("/"):
            if not isinstance(found, Mapping) or part not in found:
                raise BadSchema(f"Grammar error: unresolved reference {reference}")
            found = found[part]
        return found
