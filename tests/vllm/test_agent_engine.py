"""The agent starts a real vLLM, proves it, serves through its tunnel, cancels, and leaves nothing behind."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from poolhouse_agent.config import Config, ModelFolder
from poolhouse_agent.engine import metrics, processes
from poolhouse_agent.engine.deployment import Timing
from poolhouse_agent.engine.target import Target
from poolhouse_agent.runtime import Agent
from poolhouse_agent.state import State
from poolhouse_common.artefacts import folder_digest

from tests.agent.conftest import join, running_agent
from tests.fakes.pool import CANCEL, Answer, Pool, Tunnel, desired, running_pool
from tests.vllm.conftest import CPU_ENVIRONMENT

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

START_S = 240.0
STOP_S = 90.0
MODEL = "acme/tiny"
QUESTION = [{"role": "user", "content": "Hello gpu node, what is the price?"}]
TIMING = Timing(poll_s=1.0, drain_s=5.0)
TRANSCRIPT_CHUNK = {"id", "object", "created", "model", "choices"}


def wanted(folder: Path, **changes: Any) -> dict[str, Any]:
    return desired(
        model=MODEL, engine="vllm", artefact_digest=folder_digest(folder), context_tokens=512, max_concurrency=4,
        engine_args={"enforce_eager": True, "enable_prefix_caching": True}, settings={}, **changes,
    )  # fmt: skip


def config(folder: Path, program: str) -> Config:
    return Config(models={MODEL: ModelFolder(folder)}, vllm=program, engine_environment=CPU_ENVIRONMENT)


def target_of(agent: Agent) -> Target:
    return agent.deployments.route(MODEL)


async def load(agent: Agent) -> metrics.Load:
    async with aiohttp.ClientSession() as http:
        return await metrics.read(http, target_of(agent))


async def test_a_real_vllm_from_start_to_stop(tmp_path: Path, vllm_program: str, tiny_chat: Path) -> None:
    """One start serves all steps, because a start takes half a minute."""
    state = State(tmp_path / "state")
    state.create()
    async with running_pool() as pool:
        pool.desired = [wanted(tiny_chat)]
        await join(pool, state, simulate="")
        async with running_agent(state, config=config(tiny_chat, vllm_program), timing=TIMING) as agent:
            tunnel = await pool.tunnel()
            async with asyncio.timeout(START_S):
                await tunnel.until(lambda: is_ready(tunnel), START_S)
            leader = json.loads((state.engines / "dep_1" / "process.json").read_text())["pid"]
            assert len(processes.session_members(leader)) >= 2
            await streams_like_the_transcripts(tunnel)
            await answers_plain_requests(tunnel)
            await refuses_what_is_wrong(tunnel)
            await stops_when_cancelled(agent, tunnel)
            await keeps_its_key(agent, leader)
            await reports_counters(pool, agent)
            pool.desired = []
            async with asyncio.timeout(STOP_S):
                while agent.deployments.reports():
                    await asyncio.sleep(0.2)

    assert processes.session_members(leader) == []
    assert not (state.engines / "dep_1" / "process.json").exists()


def is_ready(tunnel: Tunnel) -> bool:
    return bool(tunnel.statuses[-1]) and tunnel.statuses[-1][0]["state"] == "ready"


async def ask(tunnel: Tunnel, **fields: Any) -> Answer:
    return await tunnel.ask({"messages": QUESTION, "temperature": 0, **fields}, model=MODEL)


async def streams_like_the_transcripts(tunnel: Tunnel) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = await ask(tunnel, stream=True, max_tokens=12, stream_options=options)

    assert answer.head["status"] == 200
    first, *middle, last, done = answer.events
    assert done == "[DONE]"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["usage"]["prompt_tokens"] == 26
    assert all(set(chunk) >= TRANSCRIPT_CHUNK for chunk in middle)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == middle[-1]["usage"]["completion_tokens"]
    assert last["usage"]["prompt_tokens_details"]["cached_tokens"] >= 0


async def answers_plain_requests(tunnel: Tunnel) -> None:
    answer = await ask(tunnel, max_tokens=5)

    body = json.loads(answer.body)
    assert body["object"] == "chat.completion"
    assert body["model"] == MODEL
    assert body["usage"]["prompt_tokens"] == 26


async def refuses_what_is_wrong(tunnel: Tunnel) -> None:
    answer = await tunnel.ask({"messages": [{"role": "user", "content": "word " * 2000}]}, model=MODEL)
    assert answer.head["status"] == 400
    assert "maximum context length" in json.loads(answer.body)["error"]["message"]

    refused = await ask(tunnel, prompt_logprobs=1)
    assert refused.failure["code"] == "field_refused"


async def stops_when_cancelled(agent: Agent, tunnel: Tunnel) -> None:
    body = {"messages": QUESTION, "stream": True, "max_tokens": 480, "ignore_eos": True}
    answer, before = None, 0
    for _ in range(5):  # 480 tokens take a third of a second: on a busy machine some end before the word arrives
        before = (await load(agent)).counters["generation_tokens_total"]
        stream = await tunnel.begin(body, model=MODEL)
        await tunnel.until(lambda stream=stream: tunnel.answers[stream].body)
        await tunnel.send(CANCEL, stream)
        answer = await tunnel.finish(stream, 2.0)
        if answer.failure:
            break

    assert answer.failure["code"] == "canceled"
    async with asyncio.timeout(5.0):
        while (await load(agent)).running:
            await asyncio.sleep(0.05)
    stopped_at = (await load(agent)).counters["generation_tokens_total"]
    await asyncio.sleep(1.0)
    assert (await load(agent)).counters["generation_tokens_total"] == stopped_at
    assert stopped_at - before < 480


async def keeps_its_key(agent: Agent, leader: int) -> None:
    target = target_of(agent)
    key = target.headers["authorization"].removeprefix("Bearer ")
    argv = Path(f"/proc/{leader}/cmdline").read_bytes().decode()
    environ = Path(f"/proc/{leader}/environ").read_bytes().decode()
    async with aiohttp.ClientSession() as http, http.get(target.base_url + "/v1/models") as response:
        assert response.status == 401

    assert key not in argv
    assert "--trust-remote-code" not in argv
    assert set(os.environ) & {"POOLHOUSE_TEST_SECRET"} == set() or "POOLHOUSE_TEST_SECRET" not in environ


async def reports_counters(pool: Pool, agent: Agent) -> None:
    beat = await pool.heartbeat(lambda beat: beat["deployments"] and beat["deployments"][0]["counters"])

    assert beat["deployments"][0]["counters"]["generation_tokens_total"] > 10


async def test_a_start_that_cannot_work_is_named(tmp_path: Path, vllm_program: str, tiny_chat: Path) -> None:
    state = State(tmp_path / "state")
    state.create()
    async with running_pool() as pool:
        pool.desired = [wanted(tiny_chat) | {"context_tokens": 100_000}]
        await join(pool, state, simulate="")
        async with running_agent(state, config=config(tiny_chat, vllm_program), timing=TIMING):
            beat = await pool.heartbeat(
                lambda beat: beat["deployments"] and beat["deployments"][0]["state"] == "failed", START_S
            )

    assert beat["deployments"][0]["code"] == "context_does_not_fit"
    assert "max_model_len" in beat["deployments"][0]["detail"]
