"""An engine is ready when it answered every shape of request that the pool sends, and not before."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from poolhouse_agent.engine import metrics, readiness, shapes
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired
from poolhouse_agent.simulate import behaviours
from poolhouse_agent.simulate.server import Options, Server

TOOLS = {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"}


class Engine:
    """A simulated engine that notes what it is asked, and answers some shapes wrongly."""

    def __init__(self, *, dimensions: int = 0) -> None:
        options = Options("tiny", 512, 4, 2000, embedding_dimensions=dimensions, version="0.32.0")
        self._server = Server(options, behaviour=lambda: behaviours.HONEST)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.broken = ""
        self.url = ""

    def application(self) -> web.Application:
        application = self._server.application()
        application.middlewares.insert(0, self._noting)
        return application

    @web.middleware
    async def _noting(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.method == "POST":
            body = await request.json()
            self.asked.append((request.path, body))
            if self.broken and self.broken in str(body) + request.path:
                return web.json_response({"error": {"message": "no"}}, status=500)
        response: web.StreamResponse = await handler(request)
        return response


async def serve(engine: Engine) -> AsyncIterator[tuple[Engine, aiohttp.ClientSession, Target]]:
    runner = web.AppRunner(engine.application(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]  the port the kernel chose
    async with aiohttp.ClientSession() as http:
        yield engine, http, Target(f"http://127.0.0.1:{port}", "tiny", 4)
    await runner.cleanup()


@pytest.fixture
async def chats() -> AsyncIterator[tuple[Engine, aiohttp.ClientSession, Target]]:
    async for one in serve(Engine()):
        yield one


@pytest.fixture
async def vectors() -> AsyncIterator[tuple[Engine, aiohttp.ClientSession, Target]]:
    async for one in serve(Engine(dimensions=16)):
        yield one


def wanted(**changes: Any) -> Desired:
    fields = {"engine": "vllm", "context_tokens": 512, **changes}
    return Desired(deployment="dep_1", model="tiny", desired="running", **fields)


async def test_a_chat_engine_is_asked_in_every_shape(chats: tuple[Engine, aiohttp.ClientSession, Target]) -> None:
    engine, http, target = chats

    proof = await readiness.prove(http, target, desired=wanted(engine_args=TOOLS))

    bodies = [body for _, body in engine.asked]
    assert [path for path, _ in engine.asked].count("/v1/completions") == 2
    assert sum(bool(body.get("stream")) for body in bodies) == 2
    assert sum("tools" in body for body in bodies) == 1
    assert sum("response_format" in body for body in bodies) == 1
    assert sum(bool(body.get("logprobs")) for body in bodies) == 1
    counted = await metrics.read(http, target)
    assert counted.counters["prompt_tokens_total"] == proof.prompt_tokens
    assert counted.counters["generation_tokens_total"] == proof.completion_tokens


async def test_tools_are_asked_for_only_where_the_engine_takes_them(
    chats: tuple[Engine, aiohttp.ClientSession, Target],
) -> None:
    engine, http, target = chats

    await readiness.prove(http, target, desired=wanted())

    assert not any("tools" in body for _, body in engine.asked)


async def test_an_embedding_engine_is_asked_for_vectors(
    vectors: tuple[Engine, aiohttp.ClientSession, Target],
) -> None:
    engine, http, target = vectors

    proof = await readiness.prove(http, target, desired=wanted())

    inputs = [body["input"] for path, body in engine.asked if path == "/v1/embeddings"]
    assert inputs == ["ping", ["ping", "pong"], "ping"]
    assert proof.completion_tokens == 0
    assert proof.prompt_tokens > 0


async def test_a_server_of_another_is_asked_for_what_every_server_has(
    chats: tuple[Engine, aiohttp.ClientSession, Target],
) -> None:
    engine, http, target = chats

    await readiness.prove(http, target, desired=wanted(engine="external"))

    assert [bool(body.get("stream")) for _, body in engine.asked] == [False, True]


@pytest.mark.parametrize("shape", [*shapes._OF_CHATS], ids=lambda shape: shape.name)
async def test_one_shape_that_fails_is_enough(
    chats: tuple[Engine, aiohttp.ClientSession, Target], shape: shapes.Shape
) -> None:
    engine, http, target = chats
    engine.broken = {
        "stream": "stream_options", "logprobs": "top_logprobs", "json schema": "response_format",
        "completions": "/v1/completions", "completions stream": "'prompt': 'ping', 'max_tokens': 2",
    }[shape.name]  # fmt: skip

    with pytest.raises(EngineError) as refused:
        await readiness.prove(http, target, desired=wanted())

    assert refused.value.code == "probe_failed"
    assert refused.value.detail.startswith(shape.name)


async def test_the_engine_tells_its_version_and_the_size_of_its_cache(
    chats: tuple[Engine, aiohttp.ClientSession, Target],
) -> None:
    _, http, target = chats

    found = await metrics.about(http, target)

    assert found["engine_version"] == "0.32.0"
