"""The benchmark that customers feel, against the simulated engine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from poolhouse_agent.benchmarks import asking, engines, figures
from poolhouse_agent.benchmarks.asking import Answered
from poolhouse_agent.benchmarks.lengths import Lengths
from poolhouse_agent.benchmarks.prompts import Prompts
from poolhouse_agent.benchmarks.serving import ServingBenchmark
from poolhouse_agent.checks.result import Result
from poolhouse_agent.engine import http
from poolhouse_agent.engine.readiness import Proof
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError
from poolhouse_agent.simulate import behaviours
from poolhouse_agent.simulate.server import Options, Server

QUICK = Lengths(answers=2, output_tokens=16, serving_s=20.0)


class Engine:
    """A simulated engine on a free port."""

    def __init__(self, server: Server, url: str, http: aiohttp.ClientSession) -> None:
        self.server = server
        self.url = url
        self.http = http

    def target(self, at_once: int = 8) -> Target:
        return Target(self.url, "acme/demo", at_once)

    async def measure(self, *, at_once: int = 8, context: int = 2048) -> tuple[dict[str, Result], ServingBenchmark]:
        benchmark = ServingBenchmark(self.http, self.target(at_once), context, QUICK, seed=1)
        return {result.id: result for result in await benchmark.run(lambda _: None)}, benchmark


@contextlib.asynccontextmanager
async def engine(behaviour: str = "honest", *, before: Any = (), **changes: Any) -> AsyncIterator[Engine]:
    options = {"model": "acme/demo", "context_tokens": 2048, "max_num_seqs": 8, "tokens_per_second": 400, **changes}
    server = Server(Options(**options), behaviour=lambda: behaviours.find(behaviour))
    application = server.application()
    application.middlewares.extend(before)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]  the port the kernel chose
    async with http.engine_session() as session:
        try:
            yield Engine(server, f"http://127.0.0.1:{port}", session)
        finally:
            await runner.cleanup()


async def test_every_figure_that_customers_feel() -> None:
    async with engine() as one:
        found, _ = await one.measure()

    assert {name: result.status.value for name, result in found.items() if result.status != "ok"} == {}
    assert set(found) == {
        "engine.smoke", "engine.first_token", "engine.inter_token", "engine.prefill", "engine.decode",
        "engine.concurrency",
    }  # fmt: skip
    assert {result.subject for result in found.values()} == {"acme/demo"}
    assert 2.0 < (found["engine.inter_token"].figure or 0) < 30.0
    table = found["engine.first_token"].evidence["table"]
    assert {(row["prompt"], row["at_once"]) for row in table} == {(length, count) for length in (128, 512)
                                                                   for count in (1, 4)}  # fmt: skip
    for row in table:
        assert row["prompt"] * 0.8 < row["prompt_tokens"] < row["prompt"] * 1.25
        assert row["first_token_ms"]["p50"] <= row["first_token_ms"]["p95"]
    assert found["engine.concurrency"].evidence["targets"] == {"first_token_ms": 2000, "inter_token_ms": 100}


async def test_prefill_and_decode_are_told_apart() -> None:
    async with engine(tokens_per_second=50) as one:
        found, _ = await one.measure(at_once=2)

    assert 20 < (found["engine.decode"].figure or 0) < 150
    assert (found["engine.prefill"].figure or 0) > 1_000


async def test_what_it_costs_is_what_the_engine_counted() -> None:
    async with engine() as one:
        _, benchmark = await one.measure()
        counters = one.server.engine.counters.page()

    spent = benchmark.spent
    assert (
        f'vllm:generation_tokens_total{{engine="0",model_name="acme/demo"}} {float(spent.completion_tokens)}'
        in counters
    )
    assert spent.prompt_tokens > 1_000


async def test_the_most_requests_at_once_end_where_the_engine_refuses() -> None:
    async with engine(max_num_seqs=2) as one:
        found, _ = await one.measure(at_once=16)

    at_once = found["engine.concurrency"].figure or 0
    assert 1 <= at_once < 16
    assert found["engine.concurrency"].evidence["most_allowed"] == 16


@web.middleware
async def others_come_first(request: web.Request, handler: Any) -> web.StreamResponse:
    """Refuse whatever is longer than the first short chats, as a server does that others have filled meanwhile."""
    if request.can_read_body and (await request.json())["max_tokens"] >= QUICK.output_tokens:
        return web.json_response({"error": {"message": "full"}}, status=429)
    answer: web.StreamResponse = await handler(request)
    return answer


async def test_an_engine_that_refuses_even_one_request_alone_is_named_busy() -> None:
    async with engine(before=[others_come_first]) as one:
        found, _ = await one.measure()

    assert [(name, one.status.value, one.code) for name, one in found.items()] == [
        ("engine.smoke", "fail", "engine_busy")
    ]


async def test_a_slow_engine_misses_the_targets() -> None:
    async with engine("slow") as one:
        benchmark = ServingBenchmark(one.http, one.target(), 512, Lengths(answers=1, output_tokens=4, serving_s=2.0), 1)
        found = {result.id: result for result in await benchmark.run(lambda _: None)}

    assert (found["engine.inter_token"].status, found["engine.inter_token"].code) == ("warn", "tokens_slow")
    assert (found["engine.concurrency"].figure, found["engine.concurrency"].code) == (0, "targets_missed")


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        ("error-in-stream", "probe_failed"),
        ("garbage-events", "engine_protocol"),
        ("empty", "engine_protocol"),
        ("usage-missing", "engine_protocol"),
        ("breaks", "engine_unreachable"),
        ("refuses", "engine_busy"),
    ],
)
async def test_a_broken_engine_is_one_failure_with_its_code(behaviour: str, code: str) -> None:
    async with engine(behaviour) as one:
        found, _ = await one.measure()

    assert list(found) == ["engine.smoke"]
    assert (found["engine.smoke"].status, found["engine.smoke"].code) == ("fail", code)
    assert found["engine.smoke"].fix


async def test_an_engine_that_hangs_is_left() -> None:
    async with engine("hangs-after-role") as one:
        with pytest.raises(EngineError, match="engine_timeout"):
            await asking.ask(one.http, one.target(), "hello", tokens=4, within_s=0.3)


async def test_an_embedding_model_has_no_tokens_to_time() -> None:
    async with engine(embedding_dimensions=8) as one:
        found, _ = await one.measure()

    assert list(found) == ["engine.smoke"]
    assert (found["engine.smoke"].status, found["engine.smoke"].evidence["is_embedding"]) == ("ok", True)


async def test_a_server_that_is_not_there_is_said_so() -> None:
    async with http.engine_session() as session:
        step = engines.step(session, Target("http://127.0.0.1:9", "m", 4), lengths=QUICK)
        (result,) = await step.work(lambda _: None)

    assert (result.status, result.code) == ("fail", "engine_unreachable")


async def test_what_was_spent_is_noted_even_where_it_was_cut_short() -> None:
    noted: list[Proof] = []
    async with engine("slow") as one:
        step = engines.step(one.http, one.target(), context_tokens=512, lengths=QUICK, note=noted.append)
        task = asyncio.ensure_future(step.work(lambda _: None))
        async with asyncio.timeout(20):
            while one.server.engine.counters.page().count("vllm:generation_tokens_total") == 0 or task.done():
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.wait({task})

    assert len(noted) == 1


def test_percentiles_take_a_value_that_was_measured() -> None:
    assert [figures.percentile([3.0, 1.0, 2.0, 4.0], share) for share in (0, 50, 95, 100)] == [1.0, 2.0, 4.0, 4.0]
    assert figures.percentile([], 95) == 0.0


def test_decode_counts_all_streams_from_the_first_token_of_any() -> None:
    one = Answered(first_s=1.0, gaps_s=[1.0, 1.0], completion_tokens=3, began_at=0.0, ended_at=3.0)
    two = Answered(first_s=2.0, gaps_s=[1.0], completion_tokens=2, began_at=0.0, ended_at=3.0)

    assert figures.decode_rate([one, two]) == pytest.approx(3 / 2)
    assert (one.inter_token_s, two.inter_token_s) == (1.0, 1.0)


def test_prompts_learn_what_a_word_costs() -> None:
    prompts = Prompts(seed=1)
    prompts.learn(short=(10, 35), long=(110, 235))

    assert len(prompts.of(435).split()) == 210
    assert prompts.of(100) != prompts.of(100)
