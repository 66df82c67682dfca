"""Traffic shaped like a coding agent's: a long prompt, many tools, parallel calls, results and counts, all streamed."""

import json
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.contract.clients.assistant import THOUGHT, prompt_tokens
from tests.contract.clients.conftest import Spoken
from tests.integration.gateway.pool import MODEL

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = (
    *("bash", "edit", "glob", "grep", "ls", "multi_edit", "notebook_edit", "read", "task", "todo_write"),
    *("web_fetch", "web_search", "write", "mcp__github__create_pull_request", "mcp__browser__take_screenshot"),
)
ASK = "Please read and grep the billing code"
SYSTEM = "You write code in a repository with care and say what you did.\n" * 500
ATTRIBUTION = "x-anthropic-billing-header: cc_version=2.1.40; cc_entrypoint=cli; cch=0f3a1;"
RESULT = "def charge(tokens: int) -> int:\n    return tokens * RATE\n" * 40
CACHED: Any = {"type": "ephemeral"}
SAID = "The tools say "


def _schema(name: str) -> dict[str, Any]:
    fields = {
        f"{name}_{number}": {"type": "string", "description": f"Field {number} of {name}. " * 20, "minLength": 1}
        for number in range(8)
    }
    inner = {"type": "array", "items": {"type": "object", "properties": fields, "additionalProperties": False}}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"path": {"type": "string"}, "options": inner, **fields},
        "required": ["path"],
        "additionalProperties": False,
    }


def _description(name: str) -> str:
    return f"Runs {name} in the repository. Use it with absolute paths only.\n" * 30


ANTHROPIC_TOOLS: list[Any] = [
    {"name": name, "description": _description(name), "input_schema": _schema(name)} for name in NAMES
]
ANTHROPIC_TOOLS[-1]["cache_control"] = CACHED
FUNCTIONS: list[Any] = [
    {"name": name, "description": _description(name), "parameters": _schema(name), "strict": False} for name in NAMES
]


def test_the_traffic_is_as_large_as_the_real_one() -> None:
    assert len(SYSTEM) > 30_000
    assert len(json.dumps(ANTHROPIC_TOOLS)) > 90_000
    assert len(NAMES) == 15


def test_on_messages(spoken: Spoken) -> None:
    client = spoken.opening(anthropic.Anthropic(api_key=spoken.pool.key, base_url=spoken.url, max_retries=0))
    system: Any = [
        {"type": "text", "text": ATTRIBUTION},
        {"type": "text", "text": SYSTEM, "cache_control": CACHED},
    ]
    thinking: Any = {"type": "enabled", "budget_tokens": 8_000}
    asked: dict[str, Any] = {"model": MODEL, "system": system, "tools": ANTHROPIC_TOOLS, "thinking": thinking}
    history: list[Any] = [{"role": "user", "content": [{"type": "text", "text": ASK, "cache_control": CACHED}]}]
    counted = client.messages.count_tokens(messages=history, **asked).input_tokens

    with client.messages.stream(max_tokens=32_000, messages=history, metadata={"user_id": "u"}, **asked) as stream:
        first = stream.get_final_message()

    assert [block.type for block in first.content] == ["thinking", "tool_use", "tool_use"]
    assert [block.name for block in first.content[1:]] == ["grep", "read"]
    assert first.stop_reason == "tool_use"
    assert first.usage.input_tokens + first.usage.cache_read_input_tokens == counted
    assert spoken.body["messages"][0] == {"role": "system", "content": SYSTEM}
    results: list[Any] = [
        {"type": "tool_result", "tool_use_id": first.content[1].id, "content": RESULT},
        {
            "type": "tool_result",
            "tool_use_id": first.content[2].id,
            "content": [{"type": "text", "text": "no such file"}],
            "is_error": True,
            "cache_control": CACHED,
        },
        {"type": "text", "text": "<system-reminder>Keep it short.</system-reminder>"},
    ]
    history += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    counted = client.messages.count_tokens(messages=history, **asked).input_tokens

    with client.messages.stream(max_tokens=32_000, messages=history, **asked) as stream:
        after = stream.get_final_message()

    assert [block.type for block in after.content] == ["thinking", "text"]
    assert after.content[0].thinking == THOUGHT
    assert after.usage.input_tokens + after.usage.cache_read_input_tokens == counted == prompt_tokens(spoken.body)
    assert [row["role"] for row in spoken.body["messages"]] == ["system", "user", "assistant", "tool", "tool", "user"]
    # litellm#39850, hindsight#4641: reasoning is a part of the completion, counted once.
    record = spoken.record(after.id)
    assert record.completion_tokens == record.claimed_completion_tokens
    assert record.prompt_tokens == record.counted_prompt_tokens == counted


def test_on_responses(spoken: Spoken) -> None:
    client = spoken.opening(openai.OpenAI(api_key=spoken.pool.key, base_url=f"{spoken.url}/v1", max_retries=0))
    asked: dict[str, Any] = {
        "model": MODEL,
        "instructions": SYSTEM,
        "tools": [{"type": "function", **function} for function in FUNCTIONS],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 32_000,
        "prompt_cache_key": "c2a1",
        "store": False,
    }
    items: list[Any] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandboxed."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASK}]},
    ]
    with client.responses.stream(input=items, **asked) as stream:
        first = stream.get_final_response()

    assert [item.type for item in first.output] == ["reasoning", "function_call", "function_call"]
    outputs = [
        {"type": "function_call_output", "call_id": call.call_id, "output": text}
        for call, text in zip(first.output[1:], (RESULT, "no such file"), strict=True)
    ]
    with client.responses.stream(input=[*items, *first.output, *outputs], **asked) as stream:
        after = stream.get_final_response()

    assert after.output_text == f"{SAID}{RESULT} and no such file."
    assert spoken.body["messages"][0] == {"role": "system", "content": f"{SYSTEM}\nSandboxed."}
    assert [row["role"] for row in spoken.body["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert after.usage.input_tokens == prompt_tokens(spoken.body)
    record = spoken.record(after.id)
    assert record.completion_tokens == record.claimed_completion_tokens
    assert record.prompt_tokens == record.counted_prompt_tokens


def test_on_chat(spoken: Spoken) -> None:
    client = spoken.opening(openai.OpenAI(api_key=spoken.pool.key, base_url=f"{spoken.url}/v1", max_retries=0))
    asked: dict[str, Any] = {
        "model": MODEL,
        "tools": [{"type": "function", "function": function} for function in FUNCTIONS],
        "parallel_tool_calls": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 32_000,
        "reasoning_effort": "high",
    }
    rows: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASK}]
    with client.chat.completions.stream(messages=rows, **asked) as stream:
        first = stream.get_final_completion().choices[0].message

    assert [call.function.name for call in first.tool_calls] == ["grep", "read"]
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": text}
        for call, text in zip(first.tool_calls, (RESULT, "no such file"), strict=True)
    ]
    rows += [first.model_dump(exclude_none=True), *results]
    with client.chat.completions.stream(messages=rows, **asked) as stream:
        after = stream.get_final_completion()

    assert after.choices[0].message.content == f"{SAID}{RESULT} and no such file."
    record = spoken.record(after.id)
    assert after.usage.prompt_tokens == prompt_tokens(spoken.body) == record.counted_prompt_tokens
    assert record.completion_tokens == record.claimed_completion_tokens


def test_fields_that_agents_send_are_taken_or_named(spoken: Spoken) -> None:
    answer = httpx.post(
        f"{spoken.url}/v1/messages?beta=true",
        headers={
            "authorization": f"Bearer {spoken.pool.key}",
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "interleaved-thinking-2025-05-14,context-management-2025-06-27",
        },
        json={
            "model": MODEL,
            "max_tokens": 100,
            "messages": [{"role": "user", "content": "Hi"}],
            "metadata": {"user_id": "u"},
            "context_management": {"edits": []},
            "thinking": {"type": "adaptive"},
        },
    )

    assert answer.status_code == 200, answer.text
    assert answer.headers["x-pool-ignored-fields"] == "context_management"
