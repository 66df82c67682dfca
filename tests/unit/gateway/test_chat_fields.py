"""Each field of a chat request is checked and named; the body for the node is built from an allow-list."""

from typing import Any

import pytest

from portal.gateway.errors import ApiError
from portal.gateway.fields import chat, sampling
from portal.gateway.fields.asked import Asked
from tests.factories.gateway import model_entry

MESSAGES = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}


def _check(**fields: Any) -> Asked:
    return chat.check({"model": "acme/chat-8b", "messages": MESSAGES} | fields, model_entry())


def _refusal(**fields: Any) -> tuple[str, str | None]:
    with pytest.raises(ApiError) as refusal:
        _check(**fields)
    assert refusal.value.status == 400
    return refusal.value.code, refusal.value.param


def test_a_plain_request_reaches_the_node_with_the_default_maximum_and_nothing_else() -> None:
    checked = _check()

    assert checked.body == {"model": "acme/chat-8b", "messages": MESSAGES, "max_tokens": 256}
    assert (checked.choices, checked.output_tokens, checked.is_stream, checked.wants_usage) == (1, 256, False, False)


@pytest.mark.parametrize(
    "field", ["store", "metadata", "user", "safety_identifier", "service_tier", "prompt_cache_key"]
)
def test_fields_without_effect_are_accepted_in_silence(field: str) -> None:
    checked = _check(**{field: "anything"})

    assert field not in checked.body
    assert checked.ignored == ()


@pytest.mark.parametrize("field", sorted(sampling.ENGINE_REACHING))
def test_engine_reaching_fields_are_refused_by_name(field: str) -> None:
    assert _refusal(**{field: 1}) == ("unsupported_parameter", field)


def test_unknown_fields_are_ignored_and_named() -> None:
    checked = _check(frobnicate=1, web_search_options={})

    assert checked.ignored == ("frobnicate", "web_search_options")
    assert checked.body.keys() == {"model", "messages", "max_tokens"}


def test_extras_count_only_where_the_catalogue_lists_them() -> None:
    checked = _check(top_k=5, min_p=0.1)

    assert checked.body["top_k"] == 5
    assert checked.ignored == ("min_p",)


def test_null_means_absent() -> None:
    checked = _check(temperature=None, tools=None, stop=None, max_tokens=None, stream=None, n=None)

    assert checked.body == {"model": "acme/chat-8b", "messages": MESSAGES, "max_tokens": 256}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": "hello"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "pirate", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 4}]}]}, "messages[0].content[0].text"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": 9}, "n"),
        ({"n": 1.0}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": 3}, "stop"),
        ({"seed": 2**63}, "seed"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "has space"}}]}, "tools[0].function.name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "perhaps"}, "tool_choice"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}},
            "tool_choice.function.name",
        ),
        ({"api_key": "sk-pool-x"}, "api_key"),
    ],
)
def test_wrong_values_are_refused_by_the_name_of_their_parameter(fields: dict[str, Any], param: str) -> None:
    assert _refusal(**fields) == ("invalid_value", param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}]},
         "messages[0].content[0].type"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].role"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"functions": [{}]}, "functions"),
        ({"function_call": "auto"}, "function_call"),
    ],
)  # fmt: skip
def test_what_is_not_offered_is_unsupported(fields: dict[str, Any], param: str) -> None:
    assert _refusal(**fields) == ("unsupported_parameter", param)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x"}}, "names an address, and nodes fetch nothing"),
        ({"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}, "names an address"),
        ({"type": "video_url", "video_url": "file:///etc/passwd"}, "names an address"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, "how many tokens it makes at most"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "how many tokens it makes at most"),
        ({"type": "image_url"}, "how many tokens it makes at most"),
        ({"type": "thought"}, "a part of type 'thought' is not offered"),
    ],
)
def test_why_a_medium_is_not_taken_is_said(part: dict[str, Any], words: str) -> None:
    with pytest.raises(ApiError) as refusal:
        _check(messages=[{"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}])

    assert (refusal.value.code, refusal.value.param) == ("unsupported_parameter", "messages[0].content[1].type")
    assert words in refusal.value.message


def test_tools_need_a_model_that_offers_them() -> None:
    with pytest.raises(ApiError) as refusal:
        chat.check({"messages": MESSAGES, "tools": [TOOL]}, model_entry(supported_parameters=frozenset()))

    assert (refusal.value.code, refusal.value.param) == ("unsupported_parameter", "tools")


def test_tools_and_the_choice_among_them_are_rebuilt() -> None:
    choice = {"type": "function", "function": {"name": "look_up", "smuggled": 1}, "more": 2}
    checked = _check(tools=[TOOL | {"cache_control": {}}], tool_choice=choice, parallel_tool_calls=False)

    assert checked.has_tools
    assert checked.body["tools"] == [TOOL]
    assert checked.body["tool_choice"] == {"type": "function", "function": {"name": "look_up"}}
    assert checked.body["parallel_tool_calls"] is False


def test_messages_are_rebuilt_and_text_parts_joined() -> None:
    rows = [
        {"role": "developer", "content": "Be brief.", "cache_control": {"type": "ephemeral"}},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]

    checked = _check(messages=rows)

    assert checked.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": None, "tool_calls": rows[2]["tool_calls"]},
        {"role": "tool", "content": "done", "tool_call_id": "c1"},
    ]
    assert checked.prompt_bytes is None, "tools are rendered to be bounded"


def test_the_maximum_never_exceeds_what_the_model_can_write() -> None:
    assert _check(max_tokens=100_000).output_tokens == 1_024
    assert _check(max_completion_tokens=7).body["max_tokens"] == 7
    assert _check(max_tokens=7, max_completion_tokens=7).output_tokens == 7


def test_schemas_are_capped_in_bytes_depth_and_pattern() -> None:
    deep: dict[str, Any] = {}
    for _ in range(30):
        deep = {"properties": {"a": deep}}
    for schema in (deep, {"enum": ["x" * 70_000]}, {"properties": {"a": {"pattern": "a" * 2_000}}}):
        spec = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        code, param = _refusal(response_format=spec)
        assert (code, param) == ("invalid_value", "response_format.json_schema.schema")


def test_a_schema_within_the_caps_goes_to_the_node() -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    spec = {"type": "json_schema", "json_schema": {"name": "p", "schema": schema, "strict": True}}

    assert _check(response_format=spec).body["response_format"] == spec
    assert "response_format" not in _check(response_format={"type": "text"}).body
