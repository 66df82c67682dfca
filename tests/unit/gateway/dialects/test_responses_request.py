"""A `/v1/responses` request becomes a chat, or is refused with the field's own name."""

from typing import Any

import pytest

from portal.gateway.dialects.responses import request
from portal.gateway.errors import ApiError
from tests.factories.gateway import model_entry

SCHEMA = {"type": "object", "properties": {}}
TOOL = {"type": "function", "name": "get_price", "description": "A price.", "parameters": SCHEMA, "strict": True}
FUNCTION = {"name": "get_price", "description": "A price.", "parameters": SCHEMA, "strict": True}


def asked(**fields: Any) -> dict[str, Any]:
    return {"model": "acme/chat-8b", "input": "Hi"} | fields


def chat(**fields: Any) -> dict[str, Any]:
    return request.to_chat(asked(**fields)).chat


def refusal(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        request.to_chat(asked(**fields)).checked(model_entry(), renamed=request.RENAMED)
    return refused.value


def test_a_plain_request():
    found = chat(
        instructions="Be brief.",
        max_output_tokens=50,
        stream=True,
        temperature=0.5,
        top_p=0.9,
        parallel_tool_calls=True,
    )

    assert found == {
        "model": "acme/chat-8b",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "max_completion_tokens": 50,
        "stream": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "parallel_tool_calls": True,
    }


def test_items():
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandboxed."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get_price", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "get_price", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "3"}]},
    ]
    translated = request.to_chat(asked(input=items, instructions="Be brief.", tools=[TOOL]))

    assert translated.chat["messages"] == [
        {"role": "system", "content": "Be brief.\nSandboxed."},
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "get_price", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "get_price", "arguments": '{"a":1}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "tool", "tool_call_id": "c2", "content": "3"},
    ]
    assert translated.ignored == ("input.reasoning",)
    assert translated.checked(model_entry(), renamed={}).body["messages"] == translated.chat["messages"]


def test_a_call_that_follows_nothing_is_a_turn_of_its_own():
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    ]

    assert chat(input=items)["messages"][1]["content"] is None


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "get_price"}, {"type": "function", "function": {"name": "get_price"}}),
    ],
)
def test_tools_and_their_choice(choice, expected):
    found = chat(tools=[TOOL], tool_choice=choice)

    assert found["tools"] == [{"type": "function", "function": FUNCTION}]
    assert found["tool_choice"] == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "text"}, {"type": "text"}),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True, "description": None},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
        ),
    ],
)
def test_the_format_of_the_text(wanted, expected):
    translated = request.to_chat(asked(text={"format": wanted, "verbosity": "low"}))

    assert translated.chat["response_format"] == expected
    assert translated.ignored == ("text.verbosity",)


def test_reasoning_where_the_model_offers_it():
    thinker = model_entry(supported_parameters=frozenset({"reasoning_effort"}))
    translated = request.to_chat(asked(reasoning={"effort": "low", "summary": "auto"}))

    assert translated.checked(thinker, renamed=request.RENAMED).body["reasoning_effort"] == "low"
    plain = translated.checked(model_entry(), renamed=request.RENAMED)
    assert plain.ignored == ("reasoning.summary", "reasoning.effort")


def test_probabilities_of_tokens():
    included = ["message.output_text.logprobs", "reasoning.encrypted_content"]
    translated = request.to_chat(asked(include=included, top_logprobs=2))

    assert (translated.chat["logprobs"], translated.chat["top_logprobs"]) == (True, 2)
    assert translated.ignored == ("include",)
    assert request.to_chat(asked(top_logprobs=2)).ignored == ("top_logprobs",)


def test_fields_without_effect_and_unknown_ones():
    translated = request.to_chat(
        asked(
            store=True,
            metadata={"a": "b"},
            user="u",
            safety_identifier="s",
            service_tier="auto",
            prompt_cache_key="k",
            stream_options={"include_obfuscation": False},
            background=False,
            truncation="auto",
            max_tool_calls=3,
            n=3,
            foo=1,
        )
    )
    found = translated.checked(model_entry(), renamed=request.RENAMED)

    assert found.ignored == ("truncation", "max_tool_calls", "n", "foo")
    assert found.choices == 1
    assert set(found.body) == {"model", "messages", "max_tokens"}


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"previous_response_id": "resp_1"}, "unsupported_parameter", "previous_response_id"),
        ({"conversation": {"id": "conv_1"}}, "unsupported_parameter", "conversation"),
        ({"background": True}, "unsupported_parameter", "background"),
        ({"prompt": {"id": "pmpt_1"}}, "unsupported_parameter", "prompt"),
        ({"input": None}, "invalid_value", "input"),
        ({"input": []}, "invalid_value", "input"),
        ({"input": [{"role": "robot", "content": "x"}]}, "invalid_value", "input[0].role"),
        ({"input": [{"role": "user", "content": 5}]}, "invalid_value", "input[0].content"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "unsupported_parameter", "input[0].type"),
        ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "unsupported_parameter", "input[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "unsupported_parameter",
            "input[0].content[0].type",
        ),
        ({"input": [{"type": "function_call_output", "output": "2"}]}, "invalid_value", "input[0].call_id"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_parameter", "tools[0].type"),
        ({"tools": [{"type": "custom", "name": "patch"}]}, "unsupported_parameter", "tools[0].type"),
        ({"tool_choice": {"type": "allowed_tools"}}, "unsupported_parameter", "tool_choice.type"),
        ({"truncation": "some"}, "invalid_value", "truncation"),
        ({"max_output_tokens": 0}, "invalid_value", "max_output_tokens"),
        ({"instructions": ["a"]}, "invalid_value", "instructions"),
        ({"cache_salt": "x"}, "unsupported_parameter", "cache_salt"),
    ],
)
def test_what_is_refused(fields, code, param):
    error = refusal(**fields)

    assert (error.status, error.code, error.param) == (400, code, param)


@pytest.mark.parametrize(
    ("given", "is_good"),
    [
        (None, True),
        ({"a": "b"}, True),
        ({str(number): "x" for number in range(17)}, False),
        ({"a" * 65: "x"}, False),
        ({"a": "x" * 513}, False),
        ({"a": 5}, False),
        ("a", False),
    ],
)
def test_metadata_is_echoed_within_bounds(given, is_good):
    if is_good:
        assert request.metadata(asked(metadata=given)) == (given or {})
        return
    with pytest.raises(ApiError) as refused:
        request.metadata(asked(metadata=given))
    assert refused.value.code == "invalid_value"
