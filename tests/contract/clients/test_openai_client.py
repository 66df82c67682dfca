"""The official `openai` client against a real gateway: Responses, and chat where an answer has more than text."""

import json
from decimal import Decimal
from typing import Any

import httpx
import openai
import pydantic
import pytest

from tests.contract.clients.assistant import BREAKS, TEXT, THOUGHT
from tests.contract.clients.conftest import Spoken
from tests.integration.gateway.pool import MODEL

pytestmark = pytest.mark.django_db(transaction=True)

ASK = "What does a pool of GPUs do all day?"
CALL_BOTH = "Tell me price and speed please"
TOOLS: list[Any] = [
    {
        "type": "function",
        "name": name,
        "description": f"Returns the {name} of a model.",
        "parameters": {"type": "object", "properties": {"model": {"type": "string"}}, "required": ["model"]},
        "strict": True,
    }
    for name in ("price", "speed")
]
CHAT_TOOLS: list[Any] = [
    {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}} for tool in TOOLS
]


class Verdict(pydantic.BaseModel):
    """What a structured answer is parsed into."""

    ok: bool


def _client(spoken: Spoken, key: str | None = None) -> openai.OpenAI:
    return spoken.opening(
        openai.OpenAI(api_key=key or spoken.pool.key, base_url=f"{spoken.url}/v1", max_retries=0, timeout=30)
    )


def test_a_response_is_billed_as_it_says(spoken: Spoken) -> None:
    response = _client(spoken).responses.create(
        model=MODEL, input=ASK, instructions="Be brief.", metadata={"case": "7"}, max_output_tokens=200
    )

    assert response.output_text == TEXT
    assert (response.status, response.model, response.metadata) == ("completed", MODEL, {"case": "7"})
    assert (response.instructions, response.max_output_tokens) == ("Be brief.", 200)
    assert response.model_extra["store"] is False
    record = spoken.record(response.id)
    assert (record.prompt_tokens, record.completion_tokens) == (
        response.usage.input_tokens,
        response.usage.output_tokens,
    )
    assert record.completion_tokens == record.claimed_completion_tokens
    assert response.usage.total_tokens == record.prompt_tokens + record.completion_tokens
    assert response.usage.output_tokens_details.reasoning_tokens == 0
    assert Decimal(response.usage.model_extra["cost"]) * 10**9 == record.charge_nano


def test_the_events_of_a_streamed_response(spoken: Spoken) -> None:
    events = list(_client(spoken).responses.create(model=MODEL, input=ASK, stream=True, max_output_tokens=200))

    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    assert events[-1].response.output_text == TEXT
    # gateway-api-inference-extension#2482, theam/facility#232: usage stands below `response`, and is counted there.
    assert events[-1].response.usage.output_tokens == spoken.record(events[0].response.id).completion_tokens


def test_the_clients_own_accumulator(spoken: Spoken) -> None:
    with _client(spoken).responses.stream(
        model=MODEL, input=CALL_BOTH, tools=TOOLS, reasoning={"effort": "low"}
    ) as stream:
        kinds = {event.type for event in stream}
        response = stream.get_final_response()

    assert {"response.reasoning_text.delta", "response.function_call_arguments.delta"} <= kinds
    assert [item.type for item in response.output] == ["reasoning", "function_call", "function_call"]
    assert response.output[0].content[0].text == THOUGHT
    assert response.usage.output_tokens_details.reasoning_tokens is None  # unknown is not zero


def test_function_calls_and_their_outputs(spoken: Spoken) -> None:
    client = _client(spoken)
    first = client.responses.create(model=MODEL, input=CALL_BOTH, tools=TOOLS)

    calls = [item for item in first.output if item.type == "function_call"]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("price", {"model": "x"}),
        ("speed", {"model": "x"}),
    ]
    outputs: list[Any] = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"{call.name} 2"} for call in calls
    ]
    after = client.responses.create(
        model=MODEL, input=[{"role": "user", "content": CALL_BOTH}, *first.output, *outputs], tools=TOOLS
    )
    assert after.output_text == "The tools say price 2 and speed 2."
    record = spoken.record(after.id)
    assert record.prompt_tokens == record.claimed_prompt_tokens == record.counted_prompt_tokens


def test_a_forced_function(spoken: Spoken) -> None:
    response = _client(spoken).responses.create(
        model=MODEL, input=ASK, tools=TOOLS, tool_choice={"type": "function", "name": "speed"}
    )

    assert [item.name for item in response.output] == ["speed"]


def test_a_parsed_response(spoken: Spoken) -> None:
    response = _client(spoken).responses.parse(model=MODEL, input=ASK, text_format=Verdict)

    assert response.output_parsed == Verdict(ok=True)
    assert spoken.body["response_format"]["json_schema"]["schema"]["required"] == ["ok"]


def test_a_response_cut_short_is_incomplete(spoken: Spoken) -> None:
    client = _client(spoken)
    whole = client.responses.create(model=MODEL, input=ASK, max_output_tokens=3)
    last = list(client.responses.create(model=MODEL, input=ASK, max_output_tokens=3, stream=True))[-1]

    assert last.type == "response.incomplete"
    for response in (whole, last.response):
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert response.output[0].status == "incomplete"


@pytest.mark.parametrize(
    "field", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}, {"background": True}]
)
def test_what_needs_memory_is_refused(spoken: Spoken, field: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        _client(spoken).responses.create(model=MODEL, input=ASK, **field)

    assert (refusal.value.code, refusal.value.param) == ("unsupported_parameter", next(iter(field)))


def test_a_tool_that_a_provider_would_run_is_refused(spoken: Spoken) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        _client(spoken).responses.create(model=MODEL, input=ASK, tools=[{"type": "web_search"}])

    assert (refusal.value.code, refusal.value.param) == ("unsupported_parameter", "tools[0].type")


def test_a_wrong_key(spoken: Spoken) -> None:
    with pytest.raises(openai.AuthenticationError) as refusal:
        _client(spoken, "sk-pool-nobody").responses.create(model=MODEL, input=ASK)

    assert refusal.value.code == "invalid_api_key"


def test_a_context_that_is_too_long(spoken: Spoken) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        _client(spoken).responses.create(model=MODEL, input="price speed " * 100_000)

    assert (refusal.value.code, refusal.value.param) == ("context_length_exceeded", "input")


def test_a_stream_that_breaks_ends_with_response_failed(spoken: Spoken) -> None:
    events = list(_client(spoken).responses.create(model=MODEL, input=BREAKS, stream=True))

    assert events[-1].type == "response.failed"
    assert events[-1].response.status == "failed"
    assert events[-1].response.error.code == "node_error"
    assert events[-1].sequence_number == len(events) - 1


def test_a_chat_with_reasoning_and_two_calls(spoken: Spoken) -> None:
    with _client(spoken).chat.completions.stream(
        model=MODEL, messages=[{"role": "user", "content": CALL_BOTH}], tools=CHAT_TOOLS, reasoning_effort="low"
    ) as stream:
        message = stream.get_final_completion().choices[0].message

    assert message.model_extra["reasoning"] == THOUGHT
    assert [call.function.name for call in message.tool_calls] == ["price", "speed"]


def test_a_chat_that_breaks_raises(spoken: Spoken) -> None:
    stream = _client(spoken).chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": BREAKS}], stream=True
    )
    with pytest.raises(openai.APIError) as failure:
        list(stream)

    assert failure.value.code == "node_error"


def test_the_body_of_a_refusal(spoken: Spoken) -> None:
    answer = httpx.post(
        f"{spoken.url}/v1/responses",
        headers={"authorization": f"Bearer {spoken.pool.key}"},
        json={"model": MODEL, "input": ASK, "tools": [{"type": "function", "name": "f", "parameters": 5}]},
    )

    assert answer.json() == {
        "error": {
            "message": "tools[0].parameters must be an object; got a number.",
            "type": "invalid_request_error",
            "param": "tools[0].parameters",
            "code": "invalid_value",
        }
    }


async def test_the_asynchronous_client(spoken: Spoken) -> None:
    async with openai.AsyncOpenAI(api_key=spoken.pool.key, base_url=f"{spoken.url}/v1", max_retries=0) as client:
        stream = await client.responses.create(model=MODEL, input=ASK, stream=True, max_output_tokens=200)
        texts = [event.delta async for event in stream if event.type == "response.output_text.delta"]

    assert "".join(texts) == TEXT
