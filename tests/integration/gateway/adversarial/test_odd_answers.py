"""Answers that are odd but whole reach the customer in our words, at the right price; odd counts are recorded."""

import json
from typing import Any

import httpx
import pytest

from portal.metering.models import UsageRecord
from tests.fakes import attacks, scripts
from tests.fakes.attacks import MESSAGES, counts, true_usage, with_usage
from tests.fakes.scripted_node import Script
from tests.integration.gateway.adversarial.conftest import Arena
from tests.integration.gateway.pool import MODEL

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("calm")]

PROMPT = scripts.prompt_tokens({"messages": MESSAGES})
COMPLETION = len(scripts.tokens(scripts.TEXT)) + 1
OWN_WORDS = (
    "stop_reason",
    "token_ids",
    "prompt_token_ids",
    "kv_transfer_params",
    "prompt_logprobs",
    "system_fingerprint",
    "service_tier",
    "secret",
    "theirs",
    "cosmic_ray",
)


def _text(response: httpx.Response) -> str:
    rows = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: {")]
    return "".join(row["choices"][0]["delta"].get("content") or "" for row in rows if row["choices"])


def _billed(record: UsageRecord) -> tuple[int, int]:
    return record.prompt_tokens, record.completion_tokens


# What the node states, what is billed for the completion, what is recorded.
STATED: dict[str, tuple[Script, int, str]] = {
    # bifrost#528, tensorzero#5481, camel-ai/camel#4217
    "usage twice": (with_usage(true_usage(), true_usage()), COMPLETION, "usage_repeated"),
    # ROCm/ATOM#1711, portkey#1338
    "usage without choices": (with_usage(true_usage(), leave_out_choices=True), COMPLETION, "usage_without_choices"),
    "negative counts": (with_usage(counts(-7)), COMPLETION, "usage_invalid"),
    "fractions": (with_usage(counts(2.5)), COMPLETION, "usage_invalid"),
    "texts": (with_usage(counts("12")), COMPLETION, "usage_invalid"),
    "truths": (with_usage(counts(True)), COMPLETION, "usage_invalid"),
    "lists": (with_usage(counts([1])), COMPLETION, "usage_invalid"),
    "more than any counter holds": (with_usage(counts(2**80)), COMPLETION, "usage_invalid"),
    "a usage that is a list": (with_usage([1, 2]), COMPLETION, "usage_invalid"),
    # d-inference#30
    "a hundred thousand tokens": (with_usage(true_usage(100_000)), COMPLETION + 1, "usage_above_bound"),
    "two billion tokens": (with_usage(counts(2**31 - 1)), COMPLETION + 1, "usage_above_bound"),
}


@pytest.mark.parametrize("name", STATED)
def test_odd_counts_are_billed_by_our_own_and_recorded(arena: Arena, name: str) -> None:
    script, most, rule = STATED[name]
    arena.hostile(script)

    response = arena.ask(stream=True, stream_options={"include_usage": True})

    assert response.text.endswith("data: [DONE]\n\n")
    assert _text(response) == scripts.TEXT
    assert response.text.count('"choices":[]') == 1
    record = arena.ended(response)
    assert record.outcome == "completed"
    assert COMPLETION - 1 <= record.completion_tokens <= most
    assert PROMPT - 1 <= record.prompt_tokens <= PROMPT + 1
    assert record.charge_nano == record.provider_nano + record.platform_nano > 0
    arena.recorded(rule)


def test_every_form_of_an_event_stream_is_read(arena: Arena) -> None:
    # mnfst/llm-gateway#2053, coder#28185: comments are neither data nor for the customer
    arena.hostile(attacks.odd_but_right)

    response = arena.ask(stream=True)

    assert _text(response) == scripts.TEXT
    assert not {"comment", "welcome", "retry:", "event:", "id: "} & set(response.text.split())
    assert b"\r" not in response.content
    assert arena.ended(response).completion_tokens == COMPLETION
    assert arena.fresh_evidence() == {}


# aisix#111, claude-code-router#1672
def test_characters_cut_across_frames_arrive_whole(arena: Arena) -> None:
    arena.hostile(attacks.wide_characters)

    response = arena.ask(stream=True)

    assert _text(response) == "Grüße 🚀世界"
    assert "\ufffd" not in response.text
    assert arena.ended(response).outcome == "completed"


# cline#9842, litellm#22709, #26773, otari#229
def test_what_an_engine_says_of_itself_stays_here(arena: Arena) -> None:
    arena.hostile(attacks.telling)

    response = arena.ask(stream=True)

    assert _text(response) == scripts.TEXT
    assert not [word for word in OWN_WORDS if word in response.text]
    rows = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: {")]
    assert {row["model"] for row in rows} == {MODEL}
    assert {row["id"] for row in rows} == {f"chatcmpl-{response.headers['x-request-id']}"}
    assert [row["choices"][0]["finish_reason"] for row in rows][-1] == "stop"


# aibrix#757, gittensor#1750, portkey#1629, litellm#27971, #5632, gpustack#4874, ferro-labs/ai-gateway#281
@pytest.mark.parametrize("wants", [True, False])
def test_usage_is_asked_of_the_engine_always_and_told_only_who_asked(arena: Arena, wants: bool) -> None:
    node = arena.hostile(with_usage(true_usage()))
    more: dict[str, Any] = {"stream_options": {"include_usage": True}} if wants else {}

    response = arena.ask(stream=True, **more)

    assert node.replies[-1].body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert ('"choices":[]' in response.text) is wants
    assert ('"usage"' in response.text) is wants
    assert arena.ended(response).completion_tokens == COMPLETION


def test_a_failure_code_of_the_agents_own_is_not_told_to_anybody(arena: Arena) -> None:
    arena.hostile(scripts.refusing("x\r\nset-cookie: a=b"))

    response = arena.ask(stream=True)

    assert response.status_code == 502
    assert "set-cookie" not in response.text
    assert "set-cookie" not in response.headers
    assert arena.ended(response).error_code == "agent_failed"
