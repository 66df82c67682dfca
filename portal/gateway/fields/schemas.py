"""Schemas for structured output and tools: capped, because a node's grammar compiler is paid by nobody."""

from typing import Any, Final

import orjson

from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import values

MAX_SCHEMA_BYTES: Final = 65_536
MAX_SCHEMA_DEPTH: Final = 24
MAX_PATTERN: Final = 1_024
MAX_CHOICES: Final = 512
MAX_TOOLS: Final = 128
MAX_TOOLS_BYTES: Final = 262_144
_MAX_DESCRIPTION: Final = 16_384
_STRUCTURED: Final = frozenset({"json", "regex", "choice"})
_ENGINE_ONLY: Final = frozenset({"grammar", "structural_tag", "json_object", "backend", "whitespace_pattern"})


def schema(value: object, param: str) -> dict[str, Any]:
    """Return a JSON schema within the caps on bytes, depth and the length of its patterns."""
    found = values.mapping(value, param)
    size = len(orjson.dumps(found))
    if size > MAX_SCHEMA_BYTES:
        raise invalid(f"{param} has {size} bytes; at most {MAX_SCHEMA_BYTES}.", param=param)
    _walk(found, param)
    return found


def _walk(root: dict[str, Any], param: str) -> None:
    level: list[object] = [root]
    for _ in range(MAX_SCHEMA_DEPTH):
        level = [child for item in level for child in _children(item, param)]
        if not level:
            return
    raise invalid(f"{param} is nested deeper than {MAX_SCHEMA_DEPTH} levels.", param=param)


def _children(item: object, param: str) -> list[object]:
    if isinstance(item, list):
        return [child for child in item if isinstance(child, dict | list)]
    if not isinstance(item, dict):
        return []
    pattern = item.get("pattern")
    if isinstance(pattern, str) and len(pattern) > MAX_PATTERN:
        raise invalid(f"{param} has a pattern of {len(pattern)} characters; at most {MAX_PATTERN}.", param=param)
    return [child for child in item.values() if isinstance(child, dict | list)]


def response_format(value: object) -> dict[str, Any] | None:
    """Return what to send for `response_format`; None for plain text."""
    found = values.mapping(value, "response_format")
    kind = values.word(found.get("type"), "response_format.type", frozenset({"text", "json_object", "json_schema"}))
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    param = "response_format.json_schema"
    spec = values.mapping(found.get("json_schema"), param)
    cleaned: dict[str, Any] = {
        "name": values.name(spec.get("name"), f"{param}.name"),
        "schema": schema(spec.get("schema"), f"{param}.schema"),
    }
    if spec.get("strict") is not None:
        cleaned["strict"] = values.boolean(spec["strict"], f"{param}.strict")
    return {"type": "json_schema", "json_schema": cleaned}


def structured_outputs(value: object) -> dict[str, Any]:
    """Return what to send for `structured_outputs`: one of json, regex and choice."""
    param = "structured_outputs"
    found = {key: item for key, item in values.mapping(value, param).items() if item is not None}
    for key in found.keys() & _ENGINE_ONLY:
        raise unsupported(f"{param}.{key} is not offered; use json, regex or choice.", param=f"{param}.{key}")
    values.only(found, param, _STRUCTURED)
    if len(found) != 1:
        raise invalid(f"{param} takes exactly one of json, regex and choice.", param=param)
    if "json" in found:
        return {"json": schema(found["json"], f"{param}.json")}
    if "regex" in found:
        return {"regex": values.text(found["regex"], f"{param}.regex", longest=MAX_PATTERN)}
    choices = values.array(found["choice"], f"{param}.choice", longest=MAX_CHOICES, shortest=1)
    return {"choice": [values.text(item, f"{param}.choice", longest=MAX_PATTERN) for item in choices]}


def tools(value: object) -> list[dict[str, Any]]:
    """Return the tools, each rebuilt from the fields that are known."""
    rows = values.array(value, "tools", longest=MAX_TOOLS)
    cleaned = [_tool(row, f"tools[{index}]") for index, row in enumerate(rows)]
    size = len(orjson.dumps(cleaned))
    if size > MAX_TOOLS_BYTES:
        raise invalid(f"tools have {size} bytes; at most {MAX_TOOLS_BYTES}.", param="tools")
    return cleaned


def _tool(value: object, param: str) -> dict[str, Any]:
    row = values.mapping(value, param)
    if row.get("type") != "function":
        raise unsupported(f"{param}.type must be function; other tools are not offered.", param=f"{param}.type")
    spec = values.mapping(row.get("function"), f"{param}.function")
    function: dict[str, Any] = {"name": values.name(spec.get("name"), f"{param}.function.name")}
    if spec.get("description") is not None:
        where = f"{param}.function.description"
        function["description"] = values.text(spec["description"], where, longest=_MAX_DESCRIPTION)
    if spec.get("parameters") is not None:
        function["parameters"] = schema(spec["parameters"], f"{param}.function.parameters")
    if spec.get("strict") is not None:
        function["strict"] = values.boolean(spec["strict"], f"{param}.function.strict")
    return {"type": "function", "function": function}


def tool_choice(value: object, offered: list[dict[str, Any]]) -> object:
    """Return what to send for `tool_choice`."""
    if isinstance(value, str):
        return values.word(value, "tool_choice", frozenset({"none", "auto", "required"}))
    found = values.mapping(value, "tool_choice")
    if found.get("type") != "function":
        raise unsupported("tool_choice.type must be function.", param="tool_choice.type")
    function = values.mapping(found.get("function"), "tool_choice.function")
    wanted = values.name(function.get("name"), "tool_choice.function.name")
    if wanted not in {tool["function"]["name"] for tool in offered}:
        raise invalid(f"tool_choice names {wanted!r}, which is not among tools.", param="tool_choice.function.name")
    return {"type": "function", "function": {"name": wanted}}
