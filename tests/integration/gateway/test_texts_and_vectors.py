"""Text completions, embeddings and tokenizing, from key to record, over a real gateway process."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from portal.billing.rules.rating import charge_nano
from portal.core.money import decimal_text
from portal.metering.models import UsageRecord
from tests.factories.billing import TERMS
from tests.fakes import scripts, texts
from tests.fakes.scripted_node import Reply, ScriptedNode
from tests.integration.gateway import embedding
from tests.integration.gateway.embedding import EMBED
from tests.integration.gateway.pool import MODEL, Gateway, Pool

pytestmark = pytest.mark.django_db(transaction=True)

PROMPT = "Once upon a time there was a pool"
ENDPOINTS = {
    "/v1/completions": {"model": MODEL, "prompt": PROMPT},
    "/v1/embeddings": {"model": EMBED, "input": PROMPT},
    "/v1/tokenize": {"model": MODEL, "prompt": PROMPT},
}


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Iterator[Gateway]:
    gateway = pool.gateway()
    yield gateway
    assert "Traceback" not in gateway.log, gateway.log


@pytest.fixture(scope="module")
def writer(pool: Pool, gateway: Gateway) -> ScriptedNode:
    return pool.connect(pool.machine(), gateway, texts.honest())


@pytest.fixture(scope="module")
def embedder(pool: Pool, gateway: Gateway) -> ScriptedNode:
    return embedding.connect(pool, gateway, texts.honest())


@pytest.fixture
def client(pool: Pool, gateway: Gateway, writer: ScriptedNode, embedder: ScriptedNode) -> Iterator[httpx.Client]:
    writer.script = embedder.script = texts.honest()
    with pool.client(gateway) as client:
        embedding.until_ready(client)
        yield client


def _cost(prompt: int, completion: int) -> str:
    return decimal_text(charge_nano(price=TERMS, prompt=prompt, cached=0, completion=completion))


def _events(response: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line.startswith("data: ")]
    return [json.loads(line) if line != "[DONE]" else line for line in lines]


def _refused(response: httpx.Response, status: int, code: str, param: str | None = None) -> None:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert len(response.headers["x-request-id"]) == 36
    assert int(response.headers["openai-processing-ms"]) >= 0


def test_a_whole_text_is_counted_charged_and_explained(pool: Pool, client: httpx.Client, writer: ScriptedNode) -> None:
    response = client.post("/v1/completions", json={"model": MODEL, "prompt": PROMPT, "max_tokens": 50})

    assert response.status_code == 200, response.text
    body, completion = response.json(), len(scripts.tokens(texts.TEXT)) + 1
    prompt = texts.prompt_tokens({"prompt": PROMPT})
    request_id = response.headers["x-request-id"]
    assert (body["id"], body["object"], body["model"]) == (f"cmpl-{request_id}", "text_completion", MODEL)
    assert body["choices"] == [{"index": 0, "text": texts.TEXT, "logprobs": None, "finish_reason": "stop"}]
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (prompt, completion)
    assert body["usage"]["cost"] == response.headers["x-pool-cost"] == _cost(prompt, completion)
    assert response.headers["x-pool-node"].startswith("node_")
    record = pool.record(request_id)
    assert (record.endpoint, record.prompt_tokens, record.counted_prompt_tokens) == ("completions", prompt, prompt)
    assert decimal_text(record.charge_nano) == _cost(prompt, completion)
    sent = writer.replies[-1]
    assert sent.head["path"] == "/v1/completions"
    assert sent.body.keys() == {"model", "prompt", "max_tokens", "cache_salt"}


@pytest.mark.parametrize("prompt", [["one", "two words"], [5, 6, 7], [[5, 6], [7]]])
def test_each_prompt_and_choice_is_paid_for_once(pool: Pool, client: httpx.Client, prompt: Any) -> None:
    response = client.post("/v1/completions", json={"model": MODEL, "prompt": prompt, "n": 2, "logprobs": 1})

    assert response.status_code == 200, response.text
    body = response.json()
    count = len(texts.prompts_of({"prompt": prompt})) * 2
    assert [choice["index"] for choice in body["choices"]] == list(range(count))
    assert "".join(body["choices"][-1]["logprobs"]["tokens"]) == texts.TEXT
    record = pool.record(response.headers["x-request-id"])
    assert record.counted_prompt_tokens == record.prompt_tokens == texts.prompt_tokens({"prompt": prompt})
    assert record.completion_tokens == count * (len(scripts.tokens(texts.TEXT)) + 1)


# vllm#8625, vllm#9357, vllm#9475: the counts within a stream are of one choice, or of all, by turns
# vllm#9028: what a stream says on the way is less than what it says at its end
def test_a_stream_of_several_choices_is_billed_by_its_last_count(
    pool: Pool, client: httpx.Client, writer: ScriptedNode
) -> None:
    async def jumping(reply: Reply) -> None:
        await reply.begin()
        prompt = texts.prompt_tokens(reply.body)
        for number, piece in enumerate(scripts.tokens(texts.TEXT), start=1):
            for index in range(2):
                choice = {"index": index, "text": piece, "finish_reason": None}
                await reply.event({"choices": [choice], "usage": texts.usage(prompt // 2, number)})
        for index in range(2):
            await reply.event({"choices": [{"index": index, "text": "", "finish_reason": "stop"}]})
        whole = 2 * (len(scripts.tokens(texts.TEXT)) + 1)
        await reply.event({"choices": [], "usage": texts.usage(prompt, whole)})
        await reply.write(b"data: [DONE]\n\n")
        await reply.end()

    writer.script = jumping
    response = client.post("/v1/completions", json={"model": MODEL, "prompt": PROMPT, "n": 2, "stream": True})

    record = pool.record(response.headers["x-request-id"])
    assert record.prompt_tokens == texts.prompt_tokens({"prompt": PROMPT})
    assert record.completion_tokens == 2 * (len(scripts.tokens(texts.TEXT)) + 1)


def test_a_stream_carries_the_text_and_its_usage_where_asked(pool: Pool, client: httpx.Client) -> None:
    fields = {"model": MODEL, "prompt": PROMPT, "stream": True, "stream_options": {"include_usage": True}}
    response = client.post("/v1/completions", json=fields)

    events = _events(response)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "".join(event["choices"][0]["text"] for event in events[:-2]) == texts.TEXT
    assert events[-3]["choices"][0] == {"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}
    assert events[-2]["choices"] == []
    assert events[-1] == "[DONE]"
    assert {event["object"] for event in events[:-1]} == {"text_completion"}
    record = pool.record(response.headers["x-request-id"])
    assert events[-2]["usage"]["cost"] == decimal_text(record.charge_nano)
    bare = _events(client.post("/v1/completions", json={"model": MODEL, "prompt": PROMPT, "stream": True}))
    assert all("usage" not in event for event in bare[:-1])


def test_a_text_that_breaks_off_ends_in_the_band_and_costs_nothing(
    pool: Pool, client: httpx.Client, writer: ScriptedNode
) -> None:
    async def dying(reply: Reply) -> None:
        await reply.begin()
        await reply.event({"choices": [{"index": 0, "text": "Once", "finish_reason": None}]})
        await reply.fail("engine_died")

    writer.script = dying
    response = client.post("/v1/completions", json={"model": MODEL, "prompt": PROMPT, "stream": True})

    events = _events(response)
    assert events[0]["choices"][0]["text"] == "Once"
    assert events[-1]["error"]["code"] == "node_error"
    assert pool.record(response.headers["x-request-id"], outcome="node_fault").charge_nano == 0


@pytest.mark.parametrize(
    ("given", "extra"),
    [
        ("hello", {}),
        (["a", "b c d"], {}),
        ([1, 2, 3], {}),
        ([[1], [2, 3]], {}),
        ("hello", {"encoding_format": "float"}),
    ],
)
def test_vectors_are_charged_by_their_prompts_alone(pool: Pool, client: httpx.Client, given: Any, extra: Any) -> None:
    response = client.post("/v1/embeddings", json={"model": EMBED, "input": given, **extra})

    assert response.status_code == 200, response.text
    body, prompt = response.json(), texts.prompt_tokens({"input": given})
    assert (body["object"], body["model"]) == ("list", EMBED)
    assert [row["index"] for row in body["data"]] == list(range(len(texts.prompts_of({"input": given}))))
    assert body["usage"] == {
        "prompt_tokens": prompt,
        "total_tokens": prompt,
        "cost": _cost(prompt, 0),
        "currency": "usd",
    }
    record = pool.record(response.headers["x-request-id"])
    assert (record.endpoint, record.prompt_tokens, record.completion_tokens) == ("embeddings", prompt, 0)
    assert decimal_text(record.charge_nano) == response.headers["x-pool-cost"] == _cost(prompt, 0)


# litellm's incident with vLLM of February 2026
def test_a_node_gets_no_null_and_no_salt_with_an_embedding(client: httpx.Client, embedder: ScriptedNode) -> None:
    response = client.post("/v1/embeddings", json={"model": EMBED, "input": "x", "encoding_format": None, "user": None})

    assert response.status_code == 200, response.text
    assert embedder.replies[-1].body == {"model": EMBED, "input": "x"}


def test_a_node_cannot_claim_that_vectors_were_written(
    pool: Pool, client: httpx.Client, embedder: ScriptedNode
) -> None:
    async def greedy(reply: Reply) -> None:
        await reply.whole(texts.embedded(reply.body) | {"usage": texts.usage(5_000, 9_000)})

    embedder.script = greedy
    response = client.post("/v1/embeddings", json={"model": EMBED, "input": "hello there"})

    prompt = texts.prompt_tokens({"input": "hello there"})
    record = pool.record(response.headers["x-request-id"])
    assert (record.prompt_tokens, record.completion_tokens) == (prompt, 0)
    assert (record.claimed_prompt_tokens, record.claimed_completion_tokens) == (5_000, 9_000)


@pytest.mark.parametrize("length", [texts.LENGTH - 1, texts.LENGTH + 1, 10_000])
def test_vectors_of_another_length_are_refused_and_cost_nothing(
    pool: Pool, client: httpx.Client, embedder: ScriptedNode, length: int
) -> None:
    async def wrong(reply: Reply) -> None:
        await reply.whole(texts.embedded(reply.body, length))

    embedder.script = wrong
    response = client.post("/v1/embeddings", json={"model": EMBED, "input": "hello"})

    _refused(response, 502, "node_error")
    record = pool.record(response.headers["x-request-id"], outcome="node_fault")
    assert (record.charge_nano, record.error_code) == (0, "vector_malformed")


# bifrost#2873: what is passed through is paid for like everything else
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
def test_no_metered_path_is_free_of_credit(pool: Pool, gateway: Gateway, client: httpx.Client, path: str) -> None:
    organization = pool.organization(0)
    with pool.client(gateway, key=pool.known_key(gateway, organization)) as poor:
        response = poor.post(path, json=ENDPOINTS[path])

    assert (response.status_code, response.json()["error"]["code"]) == (402, "credit_balance_exhausted")
    assert not UsageRecord.objects.filter(organization_id=organization.pk).exists()


@pytest.mark.parametrize("path", list(ENDPOINTS))
def test_every_path_needs_a_key_a_post_a_json_object_and_a_model(
    gateway: Gateway, client: httpx.Client, path: str
) -> None:
    good = ENDPOINTS[path]

    _refused(httpx.post(gateway.url + path, json=good), 401, "invalid_api_key")
    _refused(client.get(path), 405, "method_not_allowed")
    _refused(client.post(f"{path}/nowhere", json=good), 404, "not_found")
    _refused(client.post(path, content=b"{"), 400, "invalid_json")
    _refused(client.post(path, content=b"[]"), 400, "invalid_value")
    _refused(client.post(path, content=b"x" * (8 * 1024 * 1024 + 1)), 413, "request_too_large")
    _refused(client.post(path, json=good, headers={"x-large": "x" * 33_000}), 431, "request_too_large")
    _refused(client.post(path, json=good | {"model": "no/such"}), 404, "model_not_found", "model")
    _refused(client.post(path, json=good | {"model": None}), 400, "invalid_value", "model")


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/embeddings", {"model": MODEL, "input": "x"}),
        ("/v1/completions", {"model": EMBED, "prompt": "x"}),
        ("/v1/chat/completions", {"model": EMBED, "messages": [{"role": "user", "content": "x"}]}),
    ],
)
def test_a_model_of_the_other_task_is_not_found_there(client: httpx.Client, path: str, fields: Any) -> None:
    response = client.post(path, json=fields)

    _refused(response, 404, "model_not_found", "model")
    assert "it is served at /v1/" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "fields", "code", "param"),
    [
        ("/v1/completions", {"prompt": ""}, "invalid_value", "prompt"),
        ("/v1/completions", {"prompt": None}, "invalid_value", "prompt"),
        ("/v1/completions", {"echo": True}, "unsupported_parameter", "echo"),
        ("/v1/completions", {"n": 9}, "invalid_value", "n"),
        ("/v1/completions", {"prompt_logprobs": 1}, "unsupported_parameter", "prompt_logprobs"),
        ("/v1/completions", {"prompt": "word " * 3_000}, "context_length_exceeded", "prompt"),
        ("/v1/embeddings", {"input": []}, "invalid_value", "input"),
        ("/v1/embeddings", {"dimensions": 4}, "unsupported_parameter", "dimensions"),
        ("/v1/embeddings", {"encoding_format": "hex"}, "invalid_value", "encoding_format"),
        ("/v1/embeddings", {"input": "word " * 3_000}, "context_length_exceeded", "input"),
        ("/v1/tokenize", {"prompt": 5}, "invalid_value", "prompt"),
        ("/v1/tokenize", {"prompt": None}, "invalid_value", "prompt"),
        ("/v1/tokenize", {"messages": [{"role": "user", "content": "x"}]}, "invalid_value", "prompt"),
    ],
)
def test_wrong_fields_are_named(client: httpx.Client, path: str, fields: Any, code: str, param: str) -> None:
    _refused(client.post(path, json=ENDPOINTS[path] | fields), 400, code, param)


def test_ignored_fields_are_named_on_errors_too(client: httpx.Client, embedder: ScriptedNode) -> None:
    response = client.post("/v1/embeddings", json={"model": EMBED, "input": "x", "frobnicate": 1})
    assert response.headers["x-pool-ignored-fields"] == "frobnicate"

    embedder.script = scripts.engine_error(500, {"error": {"message": "dead"}})
    failed = client.post("/v1/embeddings", json={"model": EMBED, "input": "x", "frobnicate": 1})
    assert failed.headers["x-pool-ignored-fields"] == "frobnicate"
    assert int(failed.headers["x-ratelimit-remaining-requests"]) > 0


def test_tokens_of_a_prompt_and_of_messages(client: httpx.Client, writer: ScriptedNode) -> None:
    before, encode = len(writer.replies), scripts.tokenizer().encode
    told = client.post("/v1/tokenize", json={"model": MODEL, "prompt": PROMPT})
    assert told.json() == {"count": len(encode(PROMPT).ids), "max_model_len": 2_048, "tokens": encode(PROMPT).ids}
    assert int(told.headers["x-ratelimit-remaining-requests"]) > 0

    messages = [{"role": "user", "content": "Hi"}]
    chat = client.post("/v1/tokenize", json={"model": MODEL, "messages": messages}).json()
    assert chat["count"] == len(chat["tokens"]) == scripts.prompt_tokens({"messages": messages})
    assert client.post("/v1/tokenize", json={"model": EMBED, "prompt": PROMPT}).json()["max_model_len"] == 512
    too_long = client.post("/v1/tokenize", json={"model": MODEL, "prompt": "x" * 1_048_577})
    _refused(too_long, 413, "request_too_large")
    assert len(writer.replies) == before, "no node is asked"


def test_models_are_told_with_what_they_do(client: httpx.Client) -> None:
    rows = {row["id"]: row for row in client.get("/v1/models").json()["data"]}

    chat, embed = rows[MODEL], rows[EMBED]
    assert (chat["task"], embed["task"], embed["embedding_dimensions"]) == ("chat", "embedding", texts.LENGTH)
    assert (embed["output_modalities"], embed["supported_endpoints"]) == (
        ["embeddings"],
        ["/v1/embeddings", "/v1/tokenize"],
    )
    assert {"temperature", "max_tokens", "tools", "logprobs", "stop"} <= set(chat["supported_parameters"])
    assert embed["supported_parameters"] == ["encoding_format"]
    assert chat["supported_features"] == ["json_mode", "logprobs", "structured_outputs", "tools"]
    assert {"temperature", "top_p", "top_k", "max_tokens", "seed"} <= set(chat["supported_sampling_parameters"])
    assert chat["datacenters"] == [{"country_code": "DE"}]
    assert (chat["context_length"], chat["max_output_length"], chat["deprecation_date"]) == (2_048, 512, None)
    assert set(chat["pricing"]) == {"prompt", "completion", "input_cache_read", "request"}
