"""Answers that mean harm: the customer gets a clean error or a clean cut, pays nothing, and it is recorded."""

import json
from typing import Any

import httpx
import pytest

from portal.gateway.tunnel import frames
from portal.trust.models import NodeEvidence
from tests.fakes import attacks, scripts
from tests.fakes.attacks import DONE, FINISH, NESTED, ROLE, control, delta, event, for_ever, raw, stream_of
from tests.fakes.scripted_node import Script
from tests.integration.gateway.adversarial.conftest import Arena
from tests.integration.gateway.pool import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("calm")]

HEAD = b'{"status": 200, "content_type": "text/event-stream"}'
WHOLE = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
CALLS = {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}] * 300}


# Few tokens and much of what they should bring.
SHORT = {"max_tokens": 5}
TOO_LONG = ("stream_too_long", "stream_too_long")
BOMB = {"token": "x", "logprob": 0, "top_logprobs": [{"token": "x", "logprob": 0}] * 5_000}


def _raw_json(value: bytes) -> Script:
    return raw(value, content_type="application/json")


# name: the script, the code of the attempt, the rule that is evidence
BEFORE_A_TOKEN: dict[str, tuple[Script, str, str]] = {
    "a stream that says it is JSON": (raw(content_type="application/json"), "content_type_wrong", "content_type_wrong"),
    "a stream without a type": (raw(content_type=""), "content_type_wrong", "content_type_wrong"),
    "a header within the type": (
        raw(content_type="text/event-stream\r\nx-evil: 1"),
        "content_type_wrong",
        "content_type_wrong",
    ),
    "a type that only begins right": (
        raw(content_type="text/event-streams"),
        "content_type_wrong",
        "content_type_wrong",
    ),
    "a compressed stream": (raw(content_encoding="gzip"), "content_type_wrong", "content_type_wrong"),
    "two heads": (control((frames.HEAD, HEAD), (frames.HEAD, HEAD)), "second_head", "frames_out_of_order"),
    "a body without a head": (control((frames.DATA, DONE)), "body_before_head", "frames_out_of_order"),
    "an end without a head": (control((frames.END, b"{}")), "body_before_head", "frames_out_of_order"),
    "a head that is no JSON": (control((frames.HEAD, b"\xff\xfe")), "frame_not_json", "frames_out_of_order"),
    "a head nested deeply": (control((frames.HEAD, NESTED[:60_000])), "frame_not_json", "frames_out_of_order"),
    "a head whose status is text": (
        control((frames.HEAD, b'{"status": "200", "content_type": "text/event-stream"}')),
        "head_without_status",
        "frames_out_of_order",
    ),
    "a line of a gigabyte": (attacks.endless_line, "answer_too_large", "answer_too_large"),
    "one byte a frame": (attacks.crumbs, "frames_too_small", "frames_too_small"),
    "a byte now and then": (
        attacks.dripping(event(ROLE), pause_s=0.05),
        "timeout_first_token",
        "node_silent",
    ),
    "roles for ever": (for_ever(ROLE), "stream_without_text", "stream_without_text"),
    "empty deltas for ever": (for_ever(delta("")), "stream_without_text", "stream_without_text"),
    "JSON nested deeply": (raw(b"data: " + NESTED + b"\n\n"), "answer_not_json", "answer_malformed"),
    "text that is no UTF-8": (
        raw(b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n'),
        "answer_not_json",
        "answer_malformed",
    ),
    "half a character": (
        raw(b'data: {"choices": [{"delta": {"content": "\xf0\x9f\x9a"}}]}\n\n', DONE),
        "answer_not_json",
        "answer_malformed",
    ),
    "half of a surrogate pair": (
        raw(b'data: {"choices": [{"index": 0, "delta": {"content": "\\ud800"}}]}\n\n'),
        "answer_not_json",
        "answer_malformed",
    ),
    "a NUL in a string": (
        raw(b'data: {"choices": [{"delta": {"content": "\x00"}}]}\n\n'),
        "answer_not_json",
        "answer_malformed",
    ),
    "a number without end": (
        raw(b'data: {"choices": ' + b"9" * 400 + b"}\n\n"),
        "answer_not_json",
        "answer_malformed",
    ),
    "a choice nobody asked for": (
        stream_of({"choices": [{"index": 3, "delta": {"content": "x"}}]}),
        "choice_index",
        "answer_malformed",
    ),
    "a choice before the first": (
        stream_of({"choices": [{"index": -1, "delta": {"content": "x"}}]}),
        "choice_index",
        "answer_malformed",
    ),
    "text that is a list": (
        stream_of({"choices": [{"index": 0, "delta": {"content": ["x"]}}]}),
        "text_not_a_string",
        "answer_malformed",
    ),
    "three hundred tool calls": (
        stream_of({"choices": [{"index": 0, "delta": CALLS}]}),
        "tool_calls",
        "answer_too_large",
    ),
    "a tool with an endless name": (
        stream_of(delta("", tool_calls=[{"index": 0, "function": {"name": "x" * 100_000}}])),
        "tool_call_text",
        "answer_malformed",
    ),
    "an error after the good status": (
        stream_of({"error": {"message": "/root/secret", "code": 500}}),
        "engine_error",
        "engine_error",
    ),
    "an error of the engine": (
        raw(b'{"error": {"message": "/root/secret"}}', status=500, content_type="text/html\r\nset-cookie: a=b"),
        "engine_status_500",
        "engine_error",
    ),
    "nothing but an end": (raw(), "stream_truncated", "stream_truncated"),
}


@pytest.mark.parametrize("name", BEFORE_A_TOKEN)
def test_before_a_token_the_customer_gets_an_error_and_pays_nothing(arena: Arena, name: str) -> None:
    script, code, rule = BEFORE_A_TOKEN[name]
    arena.hostile(script)

    response = arena.ask(stream=True, max_tokens=64)

    is_late = code.startswith("timeout")
    assert response.status_code == (504 if is_late else 502), response.text
    assert response.json()["error"]["type"] == "node_error"
    assert code in response.json()["error"]["message"]
    assert "secret" not in response.text
    assert not {"x-evil", "set-cookie"} & set(response.headers)
    record = arena.ended(response)
    assert (record.error_code, record.charge_nano, record.provider_nano) == (code, 0, 0)
    _assert_first_facts(arena.recorded(rule), response, code)


AFTER_A_TOKEN: dict[str, tuple[Script, dict[str, Any], str, str]] = {
    "tokens for ever": (scripts.endless, SHORT, *TOO_LONG),
    "reasoning for ever": (
        for_ever({"choices": [{"index": 0, "delta": {"reasoning": "hm "}}]}),
        SHORT,
        *TOO_LONG,
    ),
    "empty deltas for ever": (
        for_ever(delta(""), first=delta("Hi")),
        SHORT,
        *TOO_LONG,
    ),
    "roles for ever": (for_ever(ROLE, first=delta("Hi")), SHORT, *TOO_LONG),
    "more text than its tokens hold": (
        for_ever(delta("x" * 1_000), first=delta("Hi")),
        SHORT,
        *TOO_LONG,
    ),
    "arguments for ever": (
        for_ever(delta("", tool_calls=[{"index": 0, "function": {"arguments": "x" * 1_000}}]), first=delta("Hi")),
        SHORT,
        *TOO_LONG,
    ),
    "fields nobody reads, for ever": (
        for_ever({"choices": [], "padding": "x" * 100_000}, first=delta("Hi")),
        {"max_tokens": 5},
        "answer_too_large",
        "answer_too_large",
    ),
    "logprobs of another shape": (
        stream_of(delta("Hi"), {"choices": [{"index": 0, "delta": {"content": "x"}, "logprobs": {"content": [BOMB]}}]}),
        {"logprobs": True, "top_logprobs": 2},
        "logprobs",
        "answer_malformed",
    ),
    "an event that stops half-way": (
        raw(event(delta("Hi")), b'data: {"choices": [{"in'),
        {},
        "answer_not_json",
        "answer_malformed",
    ),
    "an end without a finish": (stream_of(delta("Hi")), {}, "stream_truncated", "stream_truncated"),
    "an end without [DONE]": (raw(event(delta("Hi")), event(FINISH)), {}, "stream_truncated", "stream_truncated"),
    "text after the end": (
        raw(event(delta("Hi")), event(FINISH), DONE, event(delta("and more"))),
        {},
        "event_after_done",
        "stream_after_end",
    ),
    "an error in the middle": (
        stream_of(delta("Hi"), {"error": {"message": "/root/secret"}}),
        {},
        "engine_error",
        "engine_error",
    ),
    "a second head in the middle": (
        control((frames.HEAD, HEAD), (frames.DATA, event(delta("Hi"))), (frames.HEAD, HEAD)),
        {},
        "second_head",
        "frames_out_of_order",
    ),
}


@pytest.mark.parametrize("name", AFTER_A_TOKEN)
def test_after_a_token_the_stream_ends_in_an_error_and_costs_nothing(arena: Arena, name: str) -> None:
    script, fields, code, rule = AFTER_A_TOKEN[name]
    node = arena.hostile(script)

    response = arena.ask(stream=True, **fields)

    assert response.status_code == 200
    last = json.loads(response.text.rstrip("\n").rsplit("data: ", 1)[1])
    assert (last["error"]["type"], last["error"]["code"]) == ("node_error", "node_error")
    assert "[DONE]" not in response.text
    assert "secret" not in response.text
    assert len(response.content) < 500_000
    record = arena.ended(response)
    assert (record.error_code, record.charge_nano, record.provider_nano) == (code, 0, 0)
    _assert_first_facts(arena.recorded(rule), response, code)
    until("the node is told to stop, or had ended", lambda: node.replies[-1].is_over, 3)


WHOLE_ANSWERS: dict[str, tuple[Script, str, str]] = {
    "an answer without end": (attacks.endless_answer, "answer_too_large", "answer_too_large"),
    "a page": (raw(b"<html>", content_type="text/html"), "content_type_wrong", "content_type_wrong"),
    "a stream instead": (stream_of(delta("Hi"), FINISH), "content_type_wrong", "content_type_wrong"),
    "a compressed answer": (
        raw(b"\x1f\x8b\x08", content_type="application/json", content_encoding="gzip"),
        "content_type_wrong",
        "content_type_wrong",
    ),
    "compressed bytes": (_raw_json(b"\x1f\x8b\x08\x00\x00"), "answer_not_json", "answer_malformed"),
    "nothing": (_raw_json(b""), "answer_not_json", "answer_malformed"),
    "JSON nested deeply": (_raw_json(NESTED), "answer_not_json", "answer_malformed"),
    "a list": (_raw_json(b"[]"), "answer_not_an_object", "answer_malformed"),
    "usage alone": (_raw_json(b'{"usage": {"completion_tokens": 99}}'), "answer_without_choices", "answer_malformed"),
    "fewer choices than asked": (_raw_json(b'{"choices": []}'), "answer_incomplete", "answer_malformed"),
    "an unfinished choice": (
        _raw_json(b'{"choices": [{"index": 0, "message": {"content": "Hi"}}]}'),
        "answer_incomplete",
        "answer_malformed",
    ),
    "an error with a good status": (_raw_json(b'{"error": "/root/secret"}'), "engine_error", "engine_error"),
}


@pytest.mark.parametrize("name", WHOLE_ANSWERS)
def test_a_whole_answer_is_good_or_an_error(arena: Arena, name: str) -> None:
    script, code, rule = WHOLE_ANSWERS[name]
    arena.hostile(script)

    response = arena.ask(max_tokens=16)

    assert (response.status_code, response.json()["error"]["type"]) == (502, "node_error")
    assert "secret" not in response.text
    record = arena.ended(response)
    assert (record.error_code, record.charge_nano, record.provider_nano) == (code, 0, 0)
    _assert_first_facts(arena.recorded(rule), response, code)


def _assert_first_facts(evidence: NodeEvidence, response: httpx.Response, code: str) -> None:
    """A rule's row keeps the facts of its first incident; later ones are counted."""
    assert len(evidence.sample) <= 512
    first = (evidence.detail, str(evidence.request_id), evidence.attempt)
    assert evidence.count > 1 or first == (code, response.headers["x-request-id"], 1)


def test_the_gateways_memory_stays_where_it_was(arena: Arena) -> None:
    arena.hostile(attacks.endless_line)
    arena.ask(stream=True)
    before = arena.memory_kib

    for _ in range(8):
        arena.hostile(attacks.endless_line)
        arena.ask(stream=True)

    assert arena.memory_kib - before < 32_768
