"""Whatever JSON a customer sends, a translation is a chat or a refusal of the error table, never a fault of ours."""

import copy
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.gateway.dialects.base import Stamp
from portal.gateway.endpoints.base import Endpoint
from portal.gateway.endpoints.messages import MessagesEndpoint
from portal.gateway.endpoints.responses import ResponsesEndpoint
from portal.gateway.errors import ApiError
from tests.factories.gateway import model_entry

STAMP = Stamp(UUID(int=5), 0, "usd")
MODEL = model_entry(
    supported_parameters=frozenset({"tools", "response_format", "top_k", "chat_template_kwargs", "reasoning_effort"})
)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
MESSAGES: dict[str, Any] = {
    "model": "acme/chat-8b",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "2"}]}],
        },
    ],
    "tools": [{"type": "custom", "name": "f", "description": "d", "input_schema": SCHEMA}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "stop_sequences": ["END"],
    "thinking": {"type": "enabled", "budget_tokens": 50},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "temperature": 0.5,
    "top_k": 5,
    "stream": True,
    "metadata": {"user_id": "u"},
    "container": None,
}
RESPONSES: dict[str, Any] = {
    "model": "acme/chat-8b",
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
    ],
    "tools": [{"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": True}],
    "tool_choice": {"type": "function", "name": "f"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["message.output_text.logprobs"],
    "top_logprobs": 2,
    "truncation": "auto",
    "metadata": {"a": "b"},
    "max_output_tokens": 50,
    "parallel_tool_calls": True,
    "stream": False,
    "previous_response_id": None,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _with(request: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed: Any = copy.deepcopy(request)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    found: dict[str, Any] = changed
    return found


@pytest.mark.parametrize(("endpoint", "request_"), [(MessagesEndpoint(), MESSAGES), (ResponsesEndpoint(), RESPONSES)])
def test_the_samples_are_good(endpoint: Endpoint, request_: dict[str, Any]) -> None:
    assert endpoint.translate(request_, MODEL, STAMP).asked.body["messages"]


@pytest.mark.parametrize(
    ("endpoint", "request_"),
    [(MessagesEndpoint(), MESSAGES), (ResponsesEndpoint(), RESPONSES)],
    ids=["messages", "responses"],
)
@settings(max_examples=200, deadline=None)
@given(choice=st.data())
def test_one_wrong_value_anywhere(endpoint: Endpoint, request_: dict[str, Any], choice: st.DataObject) -> None:
    path = choice.draw(st.sampled_from(list(_places(request_))))
    changed = _with(request_, path, choice.draw(JSON))
    before = copy.deepcopy(changed)

    status, roles = _outcome(endpoint, changed)

    assert changed == before
    assert status in {200, 400}
    assert roles <= {"system", "user", "assistant", "tool"}


def _outcome(endpoint: Endpoint, raw: dict[str, Any]) -> tuple[int, set[str]]:
    try:
        translation = endpoint.translate(raw, MODEL, STAMP)
    except ApiError as refusal:
        return refusal.status, set()
    return 200, {row["role"] for row in translation.asked.body["messages"]}
