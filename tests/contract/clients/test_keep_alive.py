"""What a waiting connection is kept alive with, read by the clients that have stumbled over it."""

from collections.abc import Callable

import anthropic
import httpx2
import openai
import pytest

from portal.gateway.dialects.base import Dialect
from portal.gateway.endpoints.base import Endpoint
from portal.gateway.endpoints.chat import ChatEndpoint
from portal.gateway.endpoints.messages import MessagesEndpoint
from portal.gateway.endpoints.responses import ResponsesEndpoint
from tests.factories.gateway import model_entry
from tests.unit.gateway.dialects.answers import BILL, STAMP, delta

ASK = [{"role": "user", "content": "Hi"}]


def _dialect(endpoint: Endpoint) -> Dialect:
    raw = {"model": "acme/chat-8b", "messages": ASK, "input": "Hi", "max_tokens": 9, "stream": True}
    return endpoint.translate(raw, model_entry(), STAMP).dialect


def _waiting(endpoint: Endpoint) -> bytes:
    """Return a stream that was kept alive twice before its first text and once after it."""
    dialect = _dialect(endpoint)
    return b"".join(
        (
            dialect.begin(),
            dialect.ping(),
            dialect.ping(),
            dialect.delta(delta(role="assistant", content="Two")),
            dialect.ping(),
            dialect.delta(delta(content=".")),
            dialect.delta(delta("stop")),
            dialect.end(BILL),
        )
    )


def _http(stream: bytes) -> httpx2.Client:
    answer: Callable[[httpx2.Request], httpx2.Response] = lambda _: httpx2.Response(  # noqa: E731
        200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=stream
    )
    return httpx2.Client(transport=httpx2.MockTransport(answer))


def test_comments_do_not_disturb_a_chat() -> None:
    # llmgateway#2334: a comment followed by a blank line crashes openai's client.
    stream = _waiting(ChatEndpoint())
    assert b": ping\n\n" not in stream

    with openai.OpenAI(api_key="k", base_url="http://pool/v1", http_client=_http(stream)) as client:
        chunks = list(client.chat.completions.create(model="m", messages=ASK, stream=True))

    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Two."


@pytest.mark.parametrize("endpoint", [MessagesEndpoint(), ResponsesEndpoint()], ids=["messages", "responses"])
def test_a_ping_is_an_event_with_data(endpoint: Endpoint) -> None:
    # Floway#498: comments do not reset the idle timers of coding agents.
    ping = _dialect(endpoint).ping()

    assert ping.startswith(b"event: ")
    assert b"\ndata: {" in ping
    assert ping.endswith(b"}\n\n")


def test_pings_do_not_disturb_a_message() -> None:
    http = _http(_waiting(MessagesEndpoint()))
    with (
        anthropic.Anthropic(api_key="k", base_url="http://pool", http_client=http) as client,
        client.messages.stream(model="m", max_tokens=9, messages=ASK) as stream,
    ):
        message = stream.get_final_message()

    assert message.content[0].text == "Two."


def test_pings_do_not_disturb_a_response() -> None:
    http = _http(_waiting(ResponsesEndpoint()))
    with (
        openai.OpenAI(api_key="k", base_url="http://pool/v1", http_client=http) as client,
        client.responses.stream(model="m", input="Hi") as stream,
    ):
        numbers = [event.sequence_number for event in stream]
        response = stream.get_final_response()

    assert response.output_text == "Two."
    assert numbers == sorted(set(numbers))
