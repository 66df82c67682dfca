"""A chat's answer becomes a message: whole, or as named events."""

import pytest

from portal.gateway.dialects.base import Names
from portal.gateway.dialects.messages.answer import MessagesDialect
from tests.unit.gateway.dialects.answers import BILL, REQUEST_ID, STAMP, call, delta, events, message

USAGE = {
    "input_tokens": 6,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 4,
    "output_tokens": 7,
    "cost": "0.000012345",
    "currency": "usd",
}


def dialect() -> MessagesDialect:
    return MessagesDialect(Names("msg_1", 1, "acme/chat-8b", 1, has_logprobs=False), STAMP)


def stream(*chunks) -> list[tuple[str, dict]]:
    one = dialect()
    return events(one.begin() + b"".join(map(one.delta, chunks)) + one.end(BILL))


def test_a_whole_message():
    found = dialect().whole(message(reasoning="hm", content="Two."), BILL)

    assert found == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "acme/chat-8b",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": REQUEST_ID.hex},
            {"type": "text", "text": "Two."},
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }


def test_whole_calls_carry_parsed_input():
    calls = [call(0, '{"a": [1]}', name="f"), call(1, "", name="g")]
    found = dialect().whole(message("tool_calls", content="Look.", tool_calls=calls), BILL)

    assert found["content"] == [
        {"type": "text", "text": "Look."},
        {"type": "tool_use", "id": "call_0", "name": "f", "input": {"a": [1]}},
        {"type": "tool_use", "id": "call_1", "name": "g", "input": {}},
    ]
    assert found["stop_reason"] == "tool_use"


def test_a_call_without_an_id_gets_one():
    named = call(0, "{}", name="f")
    del named["id"]

    found = dialect().whole(message("tool_calls", tool_calls=[named]), BILL)

    assert found["content"][0]["id"] == f"toolu_{REQUEST_ID.hex}_0"


def test_arguments_that_were_cut_short_are_handed_over_as_they_are():
    found = dialect().whole(message("length", tool_calls=[call(0, '{"a": "b', name="f")]), BILL)

    assert found["content"][0]["input"] == {"unfinished_arguments": '{"a": "b'}
    assert found["stop_reason"] == "max_tokens"


def test_arguments_too_deep_to_be_written_again_stay_text():
    deep = '{"a": ' + "[" * 300 + "]" * 300 + "}"

    found = dialect().whole(message("tool_calls", tool_calls=[call(0, deep, name="f")]), BILL)

    assert found["content"][0]["input"] == {"unfinished_arguments": deep}


def test_an_answer_without_text_is_one_empty_text():
    assert dialect().whole(message(content=""), BILL)["content"] == [{"type": "text", "text": ""}]
    assert [name for name, _ in stream(delta("stop"))] == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_a_stream():
    found = stream(
        delta(role="assistant", content=""),
        delta(reasoning="hm"),
        delta(content="Look."),
        delta(tool_calls=[call(0, "", name="f")]),
        delta(tool_calls=[call(0, '{"a":1}')]),
        delta("tool_calls"),
    )

    assert all(name == value["type"] for name, value in found)
    values = [value for _, value in found]
    assert values[0]["message"] == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "acme/chat-8b",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        },
    }
    assert [{key: item for key, item in value.items() if key != "type"} for value in values[1:]] == [
        {"index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"index": 0, "delta": {"type": "signature_delta", "signature": REQUEST_ID.hex}},
        {"index": 0},
        {"index": 1, "content_block": {"type": "text", "text": ""}},
        {"index": 1, "delta": {"type": "text_delta", "text": "Look."}},
        {"index": 1},
        {"index": 2, "content_block": {"type": "tool_use", "id": "call_0", "name": "f", "input": {}}},
        {"index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
        {"index": 2},
        {"delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": USAGE},
        {},
    ]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([delta(content="a"), delta("stop")], ("end_turn", None)),
        ([delta(content="a"), delta("length")], ("max_tokens", None)),
        ([delta(content="a"), delta("content_filter")], ("refusal", None)),
        ([delta(content="a"), delta("stop", stop="END")], ("stop_sequence", "END")),
        # A forced call ends with "stop"; it is a call all the same.
        ([delta(tool_calls=[call(0, "{}", name="f")]), delta("stop")], ("tool_use", None)),
        # A call that a stop sequence cut short must not be run.
        ([delta(tool_calls=[call(0, '{"a": "', name="f")]), delta("tool_calls", stop="END")], ("stop_sequence", "END")),
        ([delta(tool_calls=[call(0, '{"a": 1}', name="f")]), delta("tool_calls", stop="END")], ("tool_use", None)),
    ],
)
def test_why_it_stopped(chunks, expected):
    last = stream(*chunks)[-2][1]["delta"]

    assert (last["stop_reason"], last["stop_sequence"]) == expected


def test_a_ping_bears_data():
    assert events(dialect().ping()) == [("ping", {"type": "ping"})]
