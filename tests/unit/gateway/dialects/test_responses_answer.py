"""A chat's answer becomes a response: whole, or as numbered events."""

from typing import Any

import pytest

from portal.gateway import errors
from portal.gateway.dialects.responses.answer import ResponsesDialect
from portal.gateway.dialects.responses.wording import RESPONSES
from portal.gateway.endpoints.responses import ResponsesEndpoint
from tests.factories.gateway import model_entry
from tests.unit.gateway.dialects.answers import BILL, REQUEST_ID, STAMP, call, delta, events, message

BASE = REQUEST_ID.hex
PROBABLE = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 17,
    "cost": "0.000012345",
    "currency": "usd",
}


def dialect(**fields: Any) -> ResponsesDialect:
    raw = {"model": "acme/chat-8b", "input": "Hi"} | fields
    found = ResponsesEndpoint().translate(raw, model_entry(), STAMP).dialect
    assert isinstance(found, ResponsesDialect)
    return found


def stream(*chunks) -> list[dict[str, Any]]:
    one = dialect()
    found = events(one.begin() + b"".join(map(one.delta, chunks)) + one.end(BILL))
    assert all(name == value["type"] for name, value in found)
    assert [value["sequence_number"] for _, value in found] == list(range(len(found)))
    return [value for _, value in found]


def test_a_whole_response():
    found = dialect(
        instructions="Be brief.", metadata={"a": "b"}, store=True, temperature=0.5, max_output_tokens=50, user="u"
    ).whole(message(content="Two."), BILL)

    assert found == {
        "id": f"resp_{BASE}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": "Be brief.",
        "max_output_tokens": 50,
        "max_tool_calls": None,
        "metadata": {"a": "b"},
        "model": "acme/chat-8b",
        "output": [
            {
                "id": f"msg_{BASE}_0",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Two.", "annotations": [], "logprobs": []}],
            }
        ],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": None,
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": None,
        "truncation": "disabled",
        "usage": USAGE,
        "user": "u",
    }


def test_reasoning_and_calls_are_items_of_their_own():
    found = dialect().whole(
        message("tool_calls", reasoning="hm", tool_calls=[call(0, '{"a": 1}', name="f"), call(1, "{}", name="g")]), BILL
    )

    assert found["output"] == [
        {
            "id": f"rs_{BASE}_0",
            "type": "reasoning",
            "status": "completed",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
            "encrypted_content": None,
        },
        {
            "id": f"fc_{BASE}_1",
            "type": "function_call",
            "status": "completed",
            "call_id": "call_0",
            "name": "f",
            "arguments": '{"a": 1}',
        },
        {
            "id": f"fc_{BASE}_2",
            "type": "function_call",
            "status": "completed",
            "call_id": "call_1",
            "name": "g",
            "arguments": "{}",
        },
    ]
    # vllm#50895: how much of the output was reasoning is unknown, which is not zero.
    assert found["usage"]["output_tokens_details"] == {"reasoning_tokens": None}


def test_tools_are_echoed_with_every_field():
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}

    found = dialect(tools=[tool], tool_choice="required").whole(message(content="a"), BILL)

    assert found["tools"] == [tool | {"description": None, "strict": None}]
    assert found["tool_choice"] == "required"


def test_a_stream_of_text():
    found = stream(delta(role="assistant", content=""), delta(content="Tw"), delta(content="o."), delta("stop"))

    where = {"item_id": f"msg_{BASE}_0", "output_index": 0, "content_index": 0}
    item = {"id": f"msg_{BASE}_0", "type": "message", "role": "assistant"}
    part = {"type": "output_text", "annotations": [], "logprobs": []}
    assert [{key: value[key] for key in value if key not in {"type", "sequence_number"}} for value in found[2:-1]] == [
        {"output_index": 0, "item": item | {"status": "in_progress", "content": []}},
        where | {"part": part | {"text": ""}},
        where | {"delta": "Tw", "logprobs": []},
        where | {"delta": "o.", "logprobs": []},
        where | {"text": "Two.", "logprobs": []},
        where | {"part": part | {"text": "Two."}},
        {"output_index": 0, "item": item | {"status": "completed", "content": [part | {"text": "Two."}]}},
    ]
    assert [value["type"] for value in found] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert found[0]["response"]["status"] == found[1]["response"]["status"] == "in_progress"
    assert found[-1]["response"]["usage"] == USAGE


def test_a_stream_of_a_call():
    found = stream(delta(tool_calls=[call(0, "", name="f")]), delta(tool_calls=[call(0, "{}")]), delta("tool_calls"))

    assert [value["type"].removeprefix("response.") for value in found[2:]] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert found[2]["item"]["arguments"] == ""
    assert (found[4]["name"], found[4]["arguments"]) == ("f", "{}")
    assert found[-1]["response"]["output"] == [found[5]["item"]]


def test_probabilities_stand_by_their_text():
    with_logprobs = delta(content="a", logprobs={"content": [PROBABLE]})
    found = stream(with_logprobs, delta("stop"))

    assert found[4]["logprobs"] == [PROBABLE]
    assert found[-1]["response"]["output"][0]["content"][0]["logprobs"] == [PROBABLE]


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_cut_short_is_incomplete(finish, reason):
    last = stream(delta(content="a"), delta(finish))[-1]

    assert last["type"] == "response.incomplete"
    assert (last["response"]["status"], last["response"]["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert last["response"]["output"][0]["status"] == "incomplete"


def test_an_answer_without_text_has_no_items():
    assert stream(delta("stop"))[-1]["response"]["output"] == []


def test_a_stream_that_fails_ends_with_response_failed():
    one = dialect()
    begun = one.begin() + one.delta(delta(content="a"))

    name, value = events(one.error(errors.node_failed(is_timeout=False, message="The node failed.")))[0]

    assert name == "response.failed"
    assert value["sequence_number"] == len(events(begun))
    assert value["response"]["error"] == {"code": "node_error", "message": "The node failed."}
    assert (value["response"]["status"], value["response"]["usage"]) == ("failed", None)


def test_a_ping_bears_data_and_counts():
    one = dialect()
    one.begin()

    name, value = events(one.ping())[0]

    assert (name, value["sequence_number"]) == ("response.in_progress", 2)


def test_refusals_have_this_endpoints_names():
    long = errors.too_long(10, 5)
    schema = errors.invalid("tools[0].function.name must be …", param="tools[0].function.name")

    assert RESPONSES.refusal(long)[1]["error"]["param"] == "input"
    assert RESPONSES.refusal(schema)[1]["error"] == {
        "message": "tools[0].name must be …",
        "type": "invalid_request_error",
        "param": "tools[0].name",
        "code": "invalid_value",
    }
