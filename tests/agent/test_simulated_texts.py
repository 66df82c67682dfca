"""The simulated engine continues texts and makes vectors in a real vLLM's shapes, with exact counts."""

import base64
import json
import math
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from poolhouse_agent.engine import readiness
from poolhouse_agent.engine.target import Target
from poolhouse_agent.protocol.messages import Desired
from poolhouse_agent.simulate import behaviours
from poolhouse_agent.simulate.server import Options, Server

RECORDED = Path(__file__).parents[1] / "fakes" / "vllm"
TEXTS, VECTORS = "/v1/completions", "/v1/embeddings"
WANTED = Desired(deployment="dep_1", model="tiny", engine="simulate", desired="running", context_tokens=128)


class Client:
    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        async with self.http.post(self.url + path, json=body) as response:
            return response.status, await response.read()

    async def ask(self, path: str, **fields: Any) -> Any:
        status, content = await self.post(path, fields)
        assert status == 200, content
        return json.loads(content)


@asynccontextmanager
async def serving(model: str, *, dimensions: int = 0, behaviour: str = "honest") -> AsyncIterator[Client]:
    options = Options(
        model=model, context_tokens=128, max_num_seqs=4, tokens_per_second=100_000, embedding_dimensions=dimensions
    )
    runner = web.AppRunner(
        Server(options, behaviour=lambda: behaviours.find(behaviour)).application(), shutdown_timeout=0.1
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    async with aiohttp.ClientSession() as http:
        yield Client(http, f"http://127.0.0.1:{port}")
    await runner.cleanup()


@pytest.fixture
async def texts() -> AsyncIterator[Client]:
    async with serving("tiny-chat") as client:
        yield client


@pytest.fixture
async def vectors() -> AsyncIterator[Client]:
    async with serving("tiny-embed", dimensions=64) as client:
        yield client


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    return found


def events(content: bytes) -> list[Any]:
    lines = [part.removeprefix(b"data: ") for part in content.split(b"\n\n") if part]
    return ["[DONE]" if line == b"[DONE]" else json.loads(line) for line in lines]


@pytest.mark.parametrize("name", ["completions-basic", "completions-two-prompts", "completions-token-ids-prompt"])
async def test_texts_have_vllms_fields(texts: Client, name: str) -> None:
    wanted = recorded(f"chat/{name}")

    made = await texts.ask(TEXTS, **wanted["request"]["json"])

    answer = wanted["response"]["json"]
    assert made.keys() == answer.keys()
    assert made["object"] == "text_completion"
    assert [choice.keys() for choice in made["choices"]] == [choice.keys() for choice in answer["choices"]]
    assert [choice["index"] for choice in made["choices"]] == [choice["index"] for choice in answer["choices"]]
    if name == "completions-token-ids-prompt":
        assert made["usage"]["prompt_tokens"] == 3
        assert made["choices"][0]["prompt_token_ids"] == [300, 301, 302]


async def test_a_stream_of_text_has_vllms_chunks(texts: Client) -> None:
    wanted = events((RECORDED / "chat" / "completions-stream-usage.sse").read_bytes())

    _, content = await texts.post(TEXTS, recorded("chat/completions-stream-usage")["request"]["json"])

    made = events(content)
    assert set(made[0]) == set(wanted[0])
    assert set(made[0]["choices"][0]) == set(wanted[0]["choices"][0])
    assert made[-1] == "[DONE]"
    assert made[-2]["choices"] == []
    assert made[-3]["choices"][0]["finish_reason"] in {"stop", "length"}
    assert made[-2]["usage"]["completion_tokens"] == len(made) - 2


async def test_each_prompt_has_its_choices_in_order(texts: Client) -> None:
    made = await texts.ask(TEXTS, prompt=["What is a pool?", "Who pays?"], n=2, max_tokens=4, logprobs=2)

    assert [choice["index"] for choice in made["choices"]] == [0, 1, 2, 3]
    assert made["usage"]["completion_tokens"] == 16
    logprobs = made["choices"][3]["logprobs"]
    assert {name: len(rows) for name, rows in logprobs.items()} == {
        "text_offset": 4,
        "token_logprobs": 4,
        "tokens": 4,
        "top_logprobs": 4,
    }
    assert all(len(top) == 2 for top in logprobs["top_logprobs"])
    assert "".join(logprobs["tokens"]) == made["choices"][3]["text"]


@pytest.mark.parametrize(
    ("dimensions", "name"), [(0, "chat/err-empty-prompt"), (64, "embed/err-embeddings-empty-list")]
)
async def test_errors_have_vllms_shape(dimensions: int, name: str) -> None:
    wanted = recorded(name)

    async with serving(wanted["request"]["json"]["model"], dimensions=dimensions) as client:
        status, content = await client.post(wanted["request"]["path"], wanted["request"]["json"])

    assert status == wanted["response"]["status"]
    assert json.loads(content)["error"].keys() == wanted["response"]["json"]["error"].keys()


@pytest.mark.parametrize(
    ("dimensions", "name"),
    [(0, "chat/err-embeddings-on-chat-model"), (64, "embed/err-chat-on-embedding-model")],
)
async def test_a_model_has_the_routes_of_its_task(dimensions: int, name: str) -> None:
    wanted = recorded(name)

    async with serving(wanted["request"]["json"]["model"], dimensions=dimensions) as client:
        status, content = await client.post(wanted["request"]["path"], wanted["request"]["json"])

    assert (status, json.loads(content)) == (404, wanted["response"]["json"])


@pytest.mark.parametrize("name", ["embeddings-one", "embeddings-list", "embeddings-base64", "embeddings-token-ids"])
async def test_vectors_have_vllms_fields(vectors: Client, name: str) -> None:
    wanted = recorded(f"embed/{name}")

    made = await vectors.ask(VECTORS, **wanted["request"]["json"])

    answer = wanted["response"]["json"]
    assert made.keys() == answer.keys()
    assert made["usage"].keys() == answer["usage"].keys()
    assert made["usage"]["completion_tokens"] == 0
    assert [row.keys() for row in made["data"]] == [row.keys() for row in answer["data"]]
    assert [len(row["embedding"]) for row in made["data"]] == [len(row["embedding"]) for row in answer["data"]]


async def test_a_vector_is_of_length_one_and_the_same_in_both_formats(vectors: Client) -> None:
    listed = (await vectors.ask(VECTORS, input="hello"))["data"][0]["embedding"]
    packed = (await vectors.ask(VECTORS, input="hello", encoding_format="base64"))["data"][0]["embedding"]

    assert math.isclose(sum(number * number for number in listed), 1.0, abs_tol=1e-5)
    assert list(struct.unpack("<64f", base64.b64decode(packed))) == listed
    assert len((await vectors.ask(VECTORS, input="hello", dimensions=8))["data"][0]["embedding"]) == 8


async def test_a_format_of_null_is_refused(vectors: Client) -> None:
    status, _ = await vectors.post(VECTORS, {"input": "hello", "encoding_format": None})

    assert status == 400


@pytest.mark.parametrize("dimensions", [0, 64])
async def test_an_engine_is_proven_by_what_its_model_does(dimensions: int) -> None:
    async with serving("tiny", dimensions=dimensions) as client:
        target = Target(base_url=client.url, served_name="tiny", max_concurrency=4)

        proof = await readiness.prove(client.http, target, desired=WANTED)

    assert proof.prompt_tokens > 0
    assert proof.completion_tokens == (0 if dimensions else 1)


@pytest.mark.parametrize(
    ("behaviour", "broken"),
    [("fails", b"EngineCore"), ("error-in-stream", b'"error"'), ("garbage-events", b"{not json"), ("no-done", b"")],
)
async def test_texts_break_as_chats_do(behaviour: str, broken: bytes) -> None:
    async with serving("tiny-chat", behaviour=behaviour) as client:
        _, content = await client.post(TEXTS, {"prompt": "What is a pool?", "stream": True, "max_tokens": 20})

    assert broken in content
    assert (b"[DONE]" in content) is (behaviour == "error-in-stream")
