"""Whatever a node hands over is counted by us, in whichever field it comes; what it claims is only a claim."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fakes import scripts
from tests.fakes.scripted_node import Reply, ScriptedNode
from tests.integration.gateway.pool import MODEL, Gateway, Pool

pytestmark = pytest.mark.django_db(transaction=True)

WORDS = " ".join(f"word{number}" for number in range(60))


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    return pool.gateway(METRICS_TOKEN="tok-en")


@pytest.fixture(scope="module")
def node(pool: Pool, gateway: Gateway) -> ScriptedNode:
    return pool.connect(pool.machine(), gateway, scripts.honest())


@pytest.fixture
def client(pool: Pool, gateway: Gateway) -> Iterator[httpx.Client]:
    with pool.client(gateway) as client:
        yield client


def _whole(**message: Any):
    async def script(reply: Reply) -> None:
        body = scripts.answer("", prompt=12, completion=0)
        body["choices"][0]["message"] = {"role": "assistant", "content": None} | message
        del body["usage"]
        await reply.whole(body)

    return script


def _ask(client: httpx.Client, content: str = "Go on.", **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 500} | fields
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return response


# litellm#39850: reasoning was counted twice, or dropped.
@pytest.mark.parametrize("field", ["content", "reasoning", "reasoning_content", "refusal"])
def test_text_costs_the_same_in_whichever_field_it_comes(pool: Pool, client: httpx.Client, node, field) -> None:
    node.script = _whole(**{field: WORDS})

    record = pool.record(_ask(client).headers["x-request-id"])

    assert (record.token_source, record.counted_completion_tokens) == ("count", len(scripts.tokens(WORDS)))
    assert record.completion_tokens == len(scripts.tokens(WORDS))
    assert record.charge_nano > 0


def test_the_arguments_of_a_tool_call_are_counted(pool: Pool, client: httpx.Client, node: ScriptedNode) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "note", "arguments": WORDS}}
    node.script = _whole(tool_calls=[call])

    record = pool.record(_ask(client).headers["x-request-id"])

    assert record.counted_completion_tokens == len(scripts.tokens(WORDS)) + len(scripts.tokens("note"))


# new-api#5235: a missing usage refunded the whole hold. litellm#37992: an explicit zero was taken for missing.
@pytest.mark.parametrize(("usage", "billed", "source"), [(None, 60, "count"), (0, 0, "claim")])
def test_no_usage_is_counted_and_an_explicit_zero_is_believed(
    pool: Pool, client: httpx.Client, node: ScriptedNode, usage: int | None, billed: int, source: str
) -> None:
    async def script(reply: Reply) -> None:
        body = scripts.answer(WORDS, prompt=0, completion=0)
        if usage is None:
            del body["usage"]
        await reply.whole(body)

    node.script = script
    record = pool.record(_ask(client).headers["x-request-id"])

    expected = len(scripts.tokens(WORDS)) if billed else 0
    assert (record.completion_tokens, record.token_source) == (expected, source)


def test_a_prompt_that_comes_again_is_expected_in_the_nodes_cache(
    pool: Pool, client: httpx.Client, node: ScriptedNode
) -> None:
    prompt = " ".join(f"fact{number}" for number in range(380))
    node.script = scripts.honest()

    first = pool.record(_ask(client, prompt, max_tokens=20).headers["x-request-id"])
    again = pool.record(_ask(client, prompt, max_tokens=20).headers["x-request-id"])

    assert first.expected_cached_tokens == 0
    assert 0.8 * again.prompt_tokens < again.expected_cached_tokens <= 0.9 * again.prompt_tokens
    assert again.cached_tokens == (again.claimed_cached_tokens or 0)


def test_figures_of_what_was_served_are_on_the_metrics_page(gateway: Gateway, client: httpx.Client, node) -> None:
    node.script = scripts.honest()
    _ask(client)
    _ask(client, stream=True)
    counted = client.post(
        "/v1/messages/count_tokens", json={"model": MODEL, "messages": [{"role": "user", "content": "Go on."}]}
    )
    assert counted.status_code == 200, counted.text
    assert client.get("/v1/nothing/here").status_code == 404

    page = client.get("/metrics", headers={"authorization": "Bearer tok-en"}).text

    what = f'gen_ai_operation_name="chat",gen_ai_request_model="{MODEL}"'
    lines = dict(line.rpartition(" ")[::2] for line in page.splitlines() if not line.startswith("#"))
    assert float(lines[f"gen_ai_server_request_duration_seconds_count{{{what}}}"]) >= 2
    assert float(lines[f"gen_ai_server_time_to_first_token_seconds_count{{{what}}}"]) >= 1
    assert float(lines['poolhouse_gateway_requests_total{code="",path="/v1/chat/completions",status="200"}']) >= 2
    assert float(lines['poolhouse_gateway_requests_total{code="",path="/v1/messages/count_tokens",status="200"}']) == 1
    assert float(lines['poolhouse_gateway_requests_total{code="not_found",path="other",status="404"}']) == 1
    assert client.get("/metrics", headers={"authorization": "Bearer wrong"}).status_code == 401
