"""A request from key to record: streamed and whole, with the counts, the cost and nothing of the engine in it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from portal.accounts.rules.terms import Budget
from portal.billing.rules.rating import charge_nano
from portal.core.money import decimal_text
from tests.factories.billing import TERMS
from tests.fakes import scripts
from tests.fakes.scripted_node import ScriptedNode
from tests.integration.gateway.pool import MODEL, Gateway, Pool

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES = [{"role": "user", "content": "What is a pool?"}]


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    return pool.gateway()


@pytest.fixture(scope="module")
def node(pool: Pool, gateway: Gateway) -> ScriptedNode:
    return pool.connect(pool.machine(), gateway, scripts.honest())


@pytest.fixture
def client(pool: Pool, gateway: Gateway, node: ScriptedNode) -> Iterator[httpx.Client]:
    node.script = scripts.honest()
    with pool.client(gateway) as client:
        yield client


def _ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES} | fields)


def _events(response: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line.startswith("data: ")]
    return [json.loads(line) if line != "[DONE]" else line for line in lines]


def test_a_whole_answer_is_counted_charged_and_explained(pool: Pool, client: httpx.Client, node: ScriptedNode) -> None:
    response = _ask(client, max_tokens=100)

    assert response.status_code == 200, response.text
    body = response.json()
    prompt, completion = scripts.prompt_tokens({"messages": MESSAGES}), len(scripts.tokens(scripts.TEXT)) + 1
    cost = charge_nano(price=TERMS, prompt=prompt, cached=0, completion=completion)
    request_id = response.headers["x-request-id"]
    assert body["id"] == f"chatcmpl-{request_id}"
    assert body["model"] == MODEL
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": scripts.TEXT, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert body["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
        "cost": decimal_text(cost),
        "currency": "usd",
    }
    assert body.keys() == {"id", "object", "created", "model", "choices", "usage"}
    assert response.headers["x-pool-cost"] == decimal_text(cost)
    assert response.headers["x-pool-node"].startswith("node_")
    assert int(response.headers["openai-processing-ms"]) >= 0
    record = pool.record(request_id)
    assert (record.prompt_tokens, record.completion_tokens, record.charge_nano) == (prompt, completion, cost)
    assert (record.outcome, record.token_source) == ("completed", "claim")


def test_a_node_gets_our_fields_the_tenants_salt_and_no_key(client: httpx.Client, node: ScriptedNode) -> None:
    _ask(client, max_tokens=5, temperature=0.5, user="alice", frobnicate=1)

    reply = node.replies[-1]
    salt = reply.body.pop("cache_salt")
    assert reply.body == {"model": MODEL, "messages": MESSAGES, "max_tokens": 5, "temperature": 0.5}
    assert len(salt) == 32
    assert reply.head.keys() == {"method", "path", "model", "attempt", "nonce"}
    assert reply.head["path"] == "/v1/chat/completions"


def test_the_callers_request_id_is_kept_and_ours_is_answered(pool: Pool, client: httpx.Client) -> None:
    response = client.post(
        "/v1/chat/completions",
        json={"model": MODEL, "messages": MESSAGES},
        headers={"x-request-id": "ticket-77"},
    )

    assert response.headers["x-request-id"] != "ticket-77"
    assert pool.record(response.headers["x-request-id"]).client_request_id == "ticket-77"


def test_ignored_fields_are_named(client: httpx.Client) -> None:
    response = _ask(client, frobnicate=1, min_p=0.5, store=True)

    assert response.headers["x-pool-ignored-fields"] == "frobnicate, min_p"


def test_limits_are_told(client: httpx.Client) -> None:
    headers = _ask(client).headers

    for what in ("requests", "tokens"):
        assert int(headers[f"x-ratelimit-limit-{what}"]) > int(headers[f"x-ratelimit-remaining-{what}"])
        assert headers[f"x-ratelimit-reset-{what}"].endswith("s")


def test_a_stream_carries_the_text_and_no_usage_unless_asked(pool: Pool, client: httpx.Client) -> None:
    response = _ask(client, stream=True)

    events = _events(response)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert events[-1] == "[DONE]"
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1]) == scripts.TEXT
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert events[-2]["choices"][0]["finish_reason"] == "stop"
    assert all("usage" not in event for event in events[:-1])
    request_id = response.headers["x-request-id"]
    assert {event["id"] for event in events[:-1]} == {f"chatcmpl-{request_id}"}
    assert pool.record(request_id).outcome == "completed"


def test_a_stream_ends_with_the_usage_where_it_was_asked(pool: Pool, client: httpx.Client) -> None:
    response = _ask(client, stream=True, stream_options={"include_usage": True})

    events = _events(response)
    assert events[-1] == "[DONE]"
    assert events[-2]["choices"] == []
    record = pool.record(response.headers["x-request-id"])
    assert events[-2]["usage"]["completion_tokens"] == record.completion_tokens == len(scripts.tokens(scripts.TEXT)) + 1
    assert events[-2]["usage"]["cost"] == decimal_text(record.charge_nano)
    assert all(event["usage"] is None for event in events[:-2])


def test_a_claim_above_the_count_is_cut_to_it(client: httpx.Client, node: ScriptedNode) -> None:
    async def greedy(reply: scripts.Reply) -> None:
        await reply.whole(scripts.answer("Two tokens?", prompt=10_000, completion=100_000))

    node.script = greedy
    response = _ask(client)

    usage = response.json()["usage"]
    assert usage["prompt_tokens"] <= scripts.prompt_tokens({"messages": MESSAGES}) + 1
    assert usage["completion_tokens"] <= len(scripts.tokens("Two tokens?")) + 2


def test_the_request_can_be_read_back_by_its_owner_alone(client: httpx.Client, pool: Pool, gateway: Gateway) -> None:
    request_id = _ask(client).headers["x-request-id"]
    pool.record(request_id)

    found = client.get(f"/v1/requests/chatcmpl-{request_id}")
    assert found.status_code == 200, found.text
    body = found.json()
    assert body["outcome"] == "completed"
    assert [attempt["node_class"] for attempt in body["attempts"]] == ["contracted"]
    assert body["attempts"][0]["routing"]["by"] == "only"
    assert [line["label"] for line in body["price"]["lines"]] == ["prompt tokens", "completion tokens"]

    with pool.client(gateway, key=pool.known_key(gateway, pool.organization(0))) as stranger:
        for text in (request_id, f"chatcmpl-{request_id}", "nonsense"):
            assert stranger.get(f"/v1/requests/{text}").status_code == 404


def test_models_are_listed_with_prices_a_token(client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()
    single = client.get(f"/v1/models/{MODEL}").json()

    assert listed["object"] == "list"
    assert listed["data"] == [single]
    assert single["pricing"] == {
        "prompt": "0.0000002",
        "completion": "0.0000008",
        "input_cache_read": "0.00000005",
        "request": "0",
    }
    assert (single["id"], single["object"], single["is_ready"]) == (MODEL, "model", True)
    assert client.get("/v1/models/no/such").status_code == 404


def test_health_needs_no_key(gateway: Gateway) -> None:
    assert httpx.get(f"{gateway.url}/healthz").json() == {"alive": True}
    ready = httpx.get(f"{gateway.url}/readyz")
    assert (ready.status_code, ready.json()["reasons"]) == (200, [])


def test_a_key_tells_its_terms(pool: Pool, gateway: Gateway) -> None:
    with pool.client(gateway, key=pool.known_key(gateway, pool.customer, budget=Budget(5_000_000_000))) as client:
        told = client.get("/v1/key").json()

    assert told["organization"] == pool.customer.public_id
    assert told["policy"]["node_classes"] == ["contracted", "house"]
    (budget,) = told["budgets"]
    assert (budget["of"], budget["period"], budget["time_zone"]) == ("key", "month", "UTC")
    assert budget["cap"] == budget["remaining"] == "5"
    assert told["spend"] == {"time_zone": "UTC", "day": "0", "week": "0", "month": "0"}
    (limits,) = told["limits"]
    assert limits["requests_per_minute"] == {"limit": 6_000, "remaining": 6_000, "resets_in": "0ms"}
