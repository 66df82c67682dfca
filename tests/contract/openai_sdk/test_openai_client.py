"""The official `openai` client against a real gateway, a real agent and its engine."""

import json
import time
from decimal import Decimal
from typing import Any

import httpx
import openai
import pytest

from portal.metering.models import UsageRecord
from tests.contract.openai_sdk.conftest import Served
from tests.integration.gateway.pool import MODEL, until

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES: list[Any] = [{"role": "user", "content": "What does a pool of GPUs do all day?"}]
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_price",
            "description": "Returns the price of a model.",
            "parameters": {"type": "object", "properties": {"model": {"type": "string"}}, "required": ["model"]},
        },
    }
]


def _record(served: Served, answer_id: str) -> UsageRecord:
    return served.pool.record(answer_id.removeprefix("chatcmpl-"))


def test_the_list_of_models(served: Served) -> None:
    client = served.client()

    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_a_chat(served: Served) -> None:
    answer = served.client().chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=40)

    assert answer.model == MODEL
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in {"stop", "length"}
    assert answer.usage is not None
    record = _record(served, answer.id)
    assert (record.prompt_tokens, record.completion_tokens) == (
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
    )
    assert record.completion_tokens == record.claimed_completion_tokens
    assert record.prompt_tokens == record.claimed_prompt_tokens == record.counted_prompt_tokens
    assert Decimal(answer.usage.model_extra["cost"]) > 0
    assert answer.usage.model_extra["currency"] == "usd"


def test_a_stream_without_usage(served: Served) -> None:
    chunks = list(served.client().chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=40, stream=True))

    assert all(chunk.usage is None for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason in {"stop", "length"}
    assert _record(served, chunks[0].id).outcome == "completed"


def test_a_stream_with_usage(served: Served) -> None:
    chunks = list(
        served.client().chat.completions.create(
            model=MODEL, messages=MESSAGES, max_tokens=40, stream=True, stream_options={"include_usage": True}
        )
    )

    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    record = _record(served, chunks[0].id)
    assert chunks[-1].usage.completion_tokens == record.completion_tokens == record.claimed_completion_tokens


def test_two_choices(served: Served) -> None:
    answer = served.client().chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=20, n=2)

    assert [choice.index for choice in answer.choices] == [0, 1]
    assert _record(served, answer.id).completion_tokens <= 2 * 20


def test_tools(served: Served) -> None:
    client = served.client()
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, tools=TOOLS, tool_choice="required")

    calls = answer.choices[0].message.tool_calls
    assert calls
    assert calls[0].function.name == "get_price"
    json.loads(calls[0].function.arguments)
    result = {"role": "tool", "tool_call_id": calls[0].id, "content": "0.2"}
    rows = [*MESSAGES, answer.choices[0].message.model_dump(exclude_none=True), result]
    after = client.chat.completions.create(model=MODEL, messages=rows, tools=TOOLS, max_tokens=20)
    assert after.choices[0].message.content
    assert _record(served, answer.id).charge_nano > 0


def test_streamed_tools(served: Served) -> None:
    with served.client().chat.completions.stream(
        model=MODEL, messages=MESSAGES, tools=TOOLS, tool_choice="required"
    ) as stream:
        message = stream.get_final_completion().choices[0].message

    assert message.tool_calls
    assert message.tool_calls[0].function.name == "get_price"


def test_structured_output(served: Served) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    answer = served.client().chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        response_format={"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}},
    )

    assert isinstance(json.loads(answer.choices[0].message.content or "")["ok"], bool)


def test_a_wrong_key(served: Served) -> None:
    with pytest.raises(openai.AuthenticationError) as refusal:
        served.client(key="sk-pool-nobody").chat.completions.create(model=MODEL, messages=MESSAGES)

    assert refusal.value.code == "invalid_api_key"
    assert refusal.value.request_id


def test_an_unknown_model(served: Served) -> None:
    with pytest.raises(openai.NotFoundError) as refusal:
        served.client().chat.completions.create(model="no/such", messages=MESSAGES)

    assert (refusal.value.code, refusal.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("is_stream", [False, True])
def test_too_long_a_context(served: Served, is_stream: bool) -> None:
    long: list[Any] = [{"role": "user", "content": "price " * 3_000}]
    with pytest.raises(openai.BadRequestError) as refusal:
        served.client().chat.completions.create(model=MODEL, messages=long, stream=is_stream)

    assert refusal.value.code == "context_length_exceeded"


def test_no_credit(served: Served) -> None:
    key = served.pool.new_key(served.pool.organization(0))
    client = served.client(key=key)
    until("the key is known", lambda: _knows(client), 5)
    with pytest.raises(openai.APIStatusError) as refusal:
        client.chat.completions.create(model=MODEL, messages=MESSAGES)

    assert (refusal.value.status_code, refusal.value.code) == (402, "credit_balance_exhausted")


def _knows(client: openai.OpenAI) -> bool:
    try:
        client.models.list()
    except openai.AuthenticationError:
        return False
    return True


def test_an_abort_after_five_tokens(served: Served) -> None:
    stream = served.client().chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=400, stream=True)
    got = 0
    answer_id = ""
    for chunk in stream:
        answer_id = chunk.id
        got += bool(chunk.choices[0].delta.content)
        if got == 5:
            break
    stream.close()
    left_at = time.monotonic()

    record = served.pool.record(answer_id.removeprefix("chatcmpl-"), "customer_abort")

    assert time.monotonic() - left_at < 8
    assert 5 <= record.completion_tokens < 200
    assert record.charge_nano > 0


def test_a_refused_field(served: Served) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        served.client().chat.completions.create(model=MODEL, messages=MESSAGES, extra_body={"prompt_logprobs": 2})

    assert (refusal.value.code, refusal.value.param) == ("unsupported_parameter", "prompt_logprobs")


async def test_the_asynchronous_client(served: Served) -> None:
    async with openai.AsyncOpenAI(
        api_key=served.pool.key, base_url=f"{served.gateway.url}/v1", max_retries=0, http_client=httpx.AsyncClient()
    ) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=10)

    assert answer.choices[0].message.content
