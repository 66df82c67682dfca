"""A `/v1/messages` request becomes a chat, or is refused with the field's own name."""

from typing import Any

import pytest

from portal.gateway.dialects.messages import request
from portal.gateway.errors import ApiError
from tests.factories.gateway import model_entry

TOOL = {"name": "get_price", "description": "A price.", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"name": "get_price", "description": "A price.", "parameters": {"type": "object", "properties": {}}}
ASK = {"role": "user", "content": "Hi"}


def asked(**fields: Any) -> dict[str, Any]:
    return {"model": "acme/chat-8b", "max_tokens": 100, "messages": [ASK]} | fields


def chat(**fields: Any) -> dict[str, Any]:
    return request.to_chat(asked(**fields)).chat


def refusal(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        request.to_chat(asked(**fields)).checked(model_entry(), renamed=request.RENAMED)
    return refused.value


def test_a_plain_request():
    assert chat(system="Be brief.", stream=True, temperature=0.5, top_p=0.9, top_k=5, stop_sequences=["END"]) == {
        "model": "acme/chat-8b",
        "max_tokens": 100,
        "messages": [{"role": "system", "content": "Be brief."}, ASK],
        "stream": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "stop": ["END"],
    }


def test_blocks_of_text_are_joined_as_engines_join_them():
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]
    translated = request.to_chat(asked(system=blocks, messages=[{"role": "user", "content": blocks}]))

    assert translated.chat["messages"] == [{"role": "system", "content": "a\nb"}, {"role": "user", "content": "a\nb"}]
    assert translated.ignored == ("cache_control",)


def test_a_turn_with_tools():
    history = [
        ASK,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "get_price", "input": {"model": "größe"}},
                {"type": "tool_use", "id": "t2", "name": "get_price", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "2"}]},
                {"type": "tool_result", "tool_use_id": "t2", "is_error": True},
                {"type": "text", "text": "And?"},
            ],
        },
    ]
    translated = request.to_chat(asked(messages=history, tools=[TOOL]))

    assert translated.chat["messages"] == [
        ASK,
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "t1",
                    "type": "function",
                    "function": {"name": "get_price", "arguments": '{"model":"größe"}'},
                },
                {"id": "t2", "type": "function", "function": {"name": "get_price", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "2"},
        {"role": "tool", "tool_call_id": "t2", "content": ""},
        {"role": "user", "content": "And?"},
    ]
    assert translated.ignored == (
        "messages.content.thinking",
        "messages.content.redacted_thinking",
        "messages.content.is_error",
    )
    assert translated.checked(model_entry(), renamed={}).body["messages"] == translated.chat["messages"]


def test_neighbours_of_one_role_are_one_turn():
    call = {"type": "tool_use", "id": "t1", "name": "get_price", "input": {}}
    rows = [
        ASK,
        {"role": "user", "content": "there"},
        {"role": "assistant", "content": "Yes."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "2"}]},
    ]

    found = chat(messages=rows)["messages"]

    assert [(row["role"], row["content"]) for row in found] == [
        ("user", "Hi\nthere"),
        ("assistant", "Yes."),
        ("tool", "2"),
    ]
    assert found[1]["tool_calls"][0]["id"] == "t1"


def test_the_attribution_of_a_coding_agent_is_no_part_of_the_prompt():
    blocks = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=a1b2c;"},
        {"type": "text", "text": "You help."},
    ]
    translated = request.to_chat(asked(system=blocks))

    assert translated.chat["messages"][0] == {"role": "system", "content": "You help."}
    assert translated.ignored == ("system.x-anthropic-billing-header",)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "get_price"},
            {"tool_choice": {"type": "function", "function": {"name": "get_price"}}},
        ),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
        ({"type": "auto", "disable_parallel_tool_use": False}, {"tool_choice": "auto"}),
    ],
)
def test_tools_and_their_choice(choice, expected):
    found = chat(tools=[TOOL | {"type": "custom", "strict": True}], tool_choice=choice)

    assert found["tools"] == [{"type": "function", "function": FUNCTION | {"strict": True}}]
    assert {name: found[name] for name in ("tool_choice", "parallel_tool_calls") if name in found} == expected


def test_a_tools_name_may_be_as_long_as_anthropics():
    name = "mcp__" + "a" * 123

    assert chat(tools=[TOOL | {"name": name}])["tools"][0]["function"]["name"] == name
    assert refusal(tools=[TOOL | {"name": name + "a"}]).param == "tools[0].function.name"


@pytest.mark.parametrize(
    ("thinking", "is_on"),
    [
        ({"type": "enabled", "budget_tokens": 2_048}, True),
        ({"type": "adaptive"}, True),
        ({"type": "disabled"}, False),
    ],
)
def test_thinking_where_the_model_offers_it(thinking, is_on):
    thinker = model_entry(supported_parameters=frozenset({"chat_template_kwargs.enable_thinking"}))
    translated = request.to_chat(asked(thinking=thinking))

    assert translated.checked(thinker, renamed=request.RENAMED).body["chat_template_kwargs"] == {
        "enable_thinking": is_on
    }
    plain = translated.checked(model_entry(), renamed=request.RENAMED)
    assert "chat_template_kwargs" not in plain.body
    assert plain.ignored[-1] == "thinking"


def test_a_schema_for_the_answer():
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    found = chat(output_config={"effort": "max", "format": {"type": "json_schema", "schema": schema}})

    assert found["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "output", "schema": schema, "strict": True},
    }
    assert found["reasoning_effort"] == "xhigh"


def test_fields_without_effect_and_unknown_ones():
    translated = request.to_chat(asked(metadata={"user_id": "u"}, service_tier="auto", n=3, betas=["x"], foo=None))
    found = translated.checked(model_entry(), renamed=request.RENAMED)

    assert found.ignored == ("n", "betas")
    assert found.choices == 1
    assert set(found.body) == {"model", "messages", "max_tokens"}


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"max_tokens": None}, "invalid_value", "max_tokens"),
        ({"max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"messages": []}, "invalid_value", "messages"),
        ({"messages": None}, "invalid_value", "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "invalid_value", "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "invalid_value", "messages[0].content"),
        ({"messages": [ASK, {"role": "assistant", "content": "The"}]}, "unsupported_parameter", "messages[1].role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url"}}]}]},
            "unsupported_parameter",
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]},
            "unsupported_parameter",
            "messages[0].content[0].type",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]}],
                    }
                ]
            },
            "unsupported_parameter",
            "messages[0].content[0].content[0].type",
        ),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "unsupported_parameter", "tools[0].type"),
        ({"tools": [{"name": "f"}]}, "invalid_value", "tools[0].input_schema"),
        ({"tool_choice": {"type": "tool", "name": "f f"}}, "invalid_value", "tool_choice.name"),
        ({"stop_sequences": "END"}, "invalid_value", "stop_sequences"),
        ({"thinking": {"type": "enabled"}}, "invalid_value", "thinking.budget_tokens"),
        ({"thinking": {"type": "deep"}}, "invalid_value", "thinking.type"),
        ({"container": "c_1"}, "unsupported_parameter", "container"),
        ({"mcp_servers": [{"url": "x"}]}, "unsupported_parameter", "mcp_servers"),
        ({"cache_salt": "x"}, "unsupported_parameter", "cache_salt"),
        ({"x-api-key": "sk-1"}, "invalid_value", "x-api-key"),
        ({"temperature": "hot"}, "invalid_value", "temperature"),
    ],
)
def test_what_is_refused(fields, code, param):
    error = refusal(**fields)

    assert (error.status, error.code, error.param) == (400, code, param)


def test_counting_needs_no_word_about_the_answer():
    translated = request.to_counted_chat(asked(max_tokens=None))

    assert translated.checked(model_entry(), renamed={}).body["messages"] == [ASK]
