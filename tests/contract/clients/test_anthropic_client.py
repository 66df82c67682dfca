"""The official `anthropic` client against a real gateway."""

from decimal import Decimal
from typing import Any

import anthropic
import httpx
import pytest

from portal.accounts.rules.terms import LimitTerms
from portal.metering.models import UsageRecord
from tests.contract.clients.assistant import BREAKS, PAUSES, TEXT, THOUGHT, assistant
from tests.contract.clients.conftest import Spoken
from tests.fakes.scripted_node import Reply
from tests.integration.gateway.pool import MODEL

pytestmark = pytest.mark.django_db(transaction=True)

ASK: list[Any] = [{"role": "user", "content": "What does a pool of GPUs do all day?"}]
TOOLS: list[Any] = [
    {
        "name": name,
        "description": f"Returns the {name} of a model.",
        "input_schema": {"type": "object", "properties": {"model": {"type": "string"}}, "required": ["model"]},
    }
    for name in ("price", "speed")
]


def _client(spoken: Spoken, key: str | None = None) -> anthropic.Anthropic:
    return spoken.opening(
        anthropic.Anthropic(api_key=key or spoken.pool.key, base_url=spoken.url, max_retries=0, timeout=30)
    )


def _create(spoken: Spoken, key: str | None = None, **fields: Any) -> anthropic.types.Message:
    message: anthropic.types.Message = _client(spoken, key).messages.create(
        **{"model": MODEL, "max_tokens": 200, "messages": ASK} | fields
    )
    return message


def test_a_message_is_billed_as_it_says(spoken: Spoken) -> None:
    message = _create(spoken)

    assert [block.model_dump(exclude_none=True) for block in message.content] == [{"type": "text", "text": TEXT}]
    assert (message.model, message.role, message.stop_reason) == (MODEL, "assistant", "end_turn")
    record = spoken.record(message.id)
    assert (record.prompt_tokens, record.completion_tokens) == (message.usage.input_tokens, message.usage.output_tokens)
    assert record.completion_tokens == record.claimed_completion_tokens
    assert record.prompt_tokens == record.counted_prompt_tokens == record.claimed_prompt_tokens
    assert Decimal(message.usage.model_extra["cost"]) * 10**9 == record.charge_nano
    assert message.usage.model_extra["currency"] == "usd"
    assert message._request_id == str(record.request_id)


def test_a_stream(spoken: Spoken) -> None:
    with _client(spoken).messages.stream(model=MODEL, max_tokens=200, messages=ASK) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()

    assert text == TEXT == message.content[0].text
    record = spoken.record(message.id)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (record.prompt_tokens, record.completion_tokens)
    assert message.stop_reason == "end_turn"


def test_the_events_of_a_stream(spoken: Spoken) -> None:
    events = list(_client(spoken).messages.create(model=MODEL, max_tokens=200, messages=ASK, stream=True))

    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert "".join(event.delta.text for event in events if event.type == "content_block_delta") == TEXT


def test_tools_and_their_results(spoken: Spoken) -> None:
    ask: list[Any] = [{"role": "user", "content": "Tell me price and speed please"}]
    first = _create(spoken, messages=ask, tools=TOOLS)

    calls = [block for block in first.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [("price", {"model": "x"}), ("speed", {"model": "x"})]
    assert first.stop_reason == "tool_use"
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": f"{call.name} 2"}]}
        for call in calls
    ]
    after = _create(
        spoken,
        messages=[*ask, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}],
        tools=TOOLS,
    )
    assert after.content[0].text == "The tools say price 2 and speed 2."
    record = spoken.record(after.id)
    assert record.prompt_tokens == record.claimed_prompt_tokens == record.counted_prompt_tokens


def test_streamed_tools(spoken: Spoken) -> None:
    ask: list[Any] = [{"role": "user", "content": "Tell me price and speed please"}]
    with _client(spoken).messages.stream(model=MODEL, max_tokens=200, messages=ask, tools=TOOLS) as stream:
        message = stream.get_final_message()

    assert [(block.name, block.input) for block in message.content] == [
        ("price", {"model": "x"}),
        ("speed", {"model": "x"}),
    ]
    assert message.stop_reason == "tool_use"


def test_one_tool_at_a_time(spoken: Spoken) -> None:
    ask: list[Any] = [{"role": "user", "content": "Tell me price and speed please"}]
    message = _create(
        spoken, messages=ask, tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": True}
    )

    assert [block.name for block in message.content] == ["price"]


def test_thinking(spoken: Spoken) -> None:
    thinking: Any = {"type": "enabled", "budget_tokens": 1_024}
    with _client(spoken).messages.stream(model=MODEL, max_tokens=2_000, messages=ASK, thinking=thinking) as stream:
        message = stream.get_final_message()

    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking == THOUGHT
    assert message.content[0].signature
    assert spoken.body["chat_template_kwargs"] == {"enable_thinking": True}
    again = _create(spoken, messages=[*ASK, {"role": "assistant", "content": message.content}, *ASK])
    assert again.content[0].text == TEXT


def test_a_stop_sequence_is_named(spoken: Spoken) -> None:
    message = _create(spoken, stop_sequences=["words"])

    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "words")
    assert message.content[0].text == TEXT[: TEXT.index("words")]


def test_an_answer_cut_short(spoken: Spoken) -> None:
    assert _create(spoken, max_tokens=3).stop_reason == "max_tokens"


def test_counting_is_exact_and_free(spoken: Spoken) -> None:
    before = UsageRecord.objects.count()
    asked: Any = {"model": MODEL, "messages": ASK, "system": "Be brief.", "tools": TOOLS}

    counted = _client(spoken).messages.count_tokens(**asked)

    assert counted.input_tokens == _create(spoken, **asked).usage.input_tokens
    assert UsageRecord.objects.count() <= before + 1


def test_counting_is_behind_the_door_and_the_limits(spoken: Spoken) -> None:
    with pytest.raises(anthropic.AuthenticationError):
        _client(spoken, "sk-pool-nobody").messages.count_tokens(model=MODEL, messages=ASK)

    client = _client(spoken, spoken.key(limits=LimitTerms(requests_per_minute=1)))
    client.messages.count_tokens(model=MODEL, messages=ASK)
    with pytest.raises(anthropic.RateLimitError):
        client.messages.count_tokens(model=MODEL, messages=ASK)


def test_a_wrong_key(spoken: Spoken) -> None:
    with pytest.raises(anthropic.AuthenticationError) as refusal:
        _create(spoken, "sk-pool-nobody")

    body: Any = refusal.value.body
    assert body["type"] == "error"
    assert body["error"]["type"] == "authentication_error"
    assert body["error"]["code"] == "invalid_api_key"
    assert body["request_id"] == refusal.value.request_id


def test_no_credit(spoken: Spoken) -> None:
    with pytest.raises(anthropic.APIStatusError) as refusal:
        _create(spoken, spoken.key(0))

    body: Any = refusal.value.body
    assert (refusal.value.status_code, body["error"]["type"]) == (402, "billing_error")
    assert body["error"]["code"] == "credit_balance_exhausted"


def test_an_unknown_model(spoken: Spoken) -> None:
    with pytest.raises(anthropic.NotFoundError) as refusal:
        _create(spoken, model="no/such")

    assert refusal.value.body["error"]["type"] == "not_found_error"


def test_too_many_requests(spoken: Spoken) -> None:
    key = spoken.key(limits=LimitTerms(requests_per_minute=1))
    _create(spoken, key)

    with pytest.raises(anthropic.RateLimitError) as refusal:
        _create(spoken, key)

    assert refusal.value.body["error"]["type"] == "rate_limit_error"
    assert int(refusal.value.response.headers["retry-after"]) > 0


def test_no_node_for_the_key(spoken: Spoken) -> None:
    with pytest.raises(anthropic.OverloadedError) as refusal:
        _create(spoken, spoken.key(node_classes=("house",)))

    assert (refusal.value.status_code, refusal.value.body["error"]["type"]) == (529, "overloaded_error")
    assert refusal.value.body["error"]["code"] == "no_capacity"


def test_a_request_that_cannot_be_said(spoken: Spoken) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    with pytest.raises(anthropic.BadRequestError) as refusal:
        _create(spoken, messages=[{"role": "user", "content": [image]}])

    assert refusal.value.body["error"] == {
        "type": "invalid_request_error",
        "message": "A block of type 'image' is not offered: models here take text, tool calls and their results.",
        "code": "unsupported_parameter",
        "param": "messages[0].content[0].type",
    }


def test_a_stream_that_breaks_ends_with_an_error(spoken: Spoken) -> None:
    # preloop#117, OmniRoute#8210: an answer that was cut off looked like one that ended.
    stream = _client(spoken).messages.create(
        model=MODEL, max_tokens=200, messages=[{"role": "user", "content": BREAKS}], stream=True
    )
    kinds: list[str] = []
    with pytest.raises(anthropic.APIStatusError) as failure:
        kinds.extend(event.type for event in stream)

    assert failure.value.body["error"]["code"] == "node_error"
    assert "content_block_delta" in kinds
    assert "message_stop" not in kinds


async def _dying_first(reply: Reply) -> None:
    """Begin a first attempt and die before a word; answer any other."""
    if not reply.head["attempt"].endswith("/1"):
        await assistant(reply)
        return
    await reply.begin()
    await reply.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    await reply.fail("engine_died")


def test_a_node_that_dies_before_its_first_word_is_replaced_unseen(spoken: Spoken) -> None:
    # bifrost#5395, litellm#32835, #38610: once message_start was out, nobody else could answer, or it came twice.
    other = spoken.pool.connect(spoken.pool.machine(), spoken.gateway, _dying_first)
    spoken.node.script = _dying_first
    try:
        events = list(_client(spoken).messages.create(model=MODEL, max_tokens=200, messages=ASK, stream=True))
    finally:
        spoken.node.script = assistant
        other.stop()
        spoken.pool.nodes.remove(other)

    assert [event.type for event in events].count("message_start") == 1
    assert "".join(event.delta.text for event in events if event.type == "content_block_delta") == TEXT
    record = spoken.record(events[0].message.id)
    assert (record.attempt, record.completion_tokens) == (2, record.claimed_completion_tokens)


def test_an_aborted_stream_is_one_settled_record(spoken: Spoken) -> None:
    # litellm#33736, #35958, #37558: no spend row at all for a stream that the client cut, and again on /v1/messages.
    slowly = [{"role": "user", "content": PAUSES}]
    with _client(spoken).messages.create(model=MODEL, max_tokens=200, messages=slowly, stream=True) as stream:
        answer_id = ""
        for event in stream:
            if event.type == "message_start":
                answer_id = event.message.id
            if event.type == "content_block_delta":
                break

    record = spoken.record(answer_id, "customer_abort")

    assert record.endpoint == "messages"
    assert 1 <= record.completion_tokens < 15
    assert record.charge_nano > 0
    assert UsageRecord.objects.filter(request_id=record.request_id).count() == 1


def test_the_headers_of_an_answer(spoken: Spoken) -> None:
    answer = httpx.post(
        f"{spoken.url}/v1/messages",
        headers={"x-api-key": spoken.pool.key, "anthropic-version": "2023-06-01", "anthropic-beta": "a-2026-01-01,b"},
        json={"model": MODEL, "max_tokens": 50, "messages": ASK, "n": 3},
    )

    assert answer.status_code == 200
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    assert answer.headers["x-pool-ignored-fields"] == "n"
    assert answer.json()["id"].startswith("msg_")


async def test_the_asynchronous_client(spoken: Spoken) -> None:
    async with anthropic.AsyncAnthropic(api_key=spoken.pool.key, base_url=spoken.url, max_retries=0) as client:
        message = await client.messages.create(model=MODEL, max_tokens=200, messages=ASK)

    assert message.content[0].text == TEXT
