"""Embeddings of a real vLLM through a real gateway: what is billed is what vLLM counted, specials included."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import openai
import pytest
from poolhouse_agent import front
from poolhouse_agent.engine import readiness
from poolhouse_agent.engine.metrics import parse
from poolhouse_agent.engine.target import Target
from poolhouse_agent.protocol.frames import RequestHead
from poolhouse_agent.protocol.messages import Desired

from portal.catalog.models import ArtefactKind, CatalogModel
from portal.catalog.services import artefacts
from portal.core import clock
from portal.sandbox import processes
from tests.fakes.scripted_node import Reply, Script
from tests.integration.gateway import embedding
from tests.integration.gateway.conftest import _django_db_helper, pool
from tests.integration.gateway.embedding import EMBED
from tests.integration.gateway.pool import Gateway, Pool, until
from tests.vllm.conftest import CPU_ENVIRONMENT

__all__ = ["_django_db_helper", "pool"]

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600), pytest.mark.django_db(transaction=True)]

SERVED = "tiny-embed"
LENGTH = 64
START_S = 300.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, vllm_program: str, tiny_embed: Path) -> Iterator[str]:
    """The address of a vLLM that serves the embedding model."""
    port, log = processes.free_port(), tmp_path_factory.mktemp("embed") / "vllm.log"
    argv = [vllm_program, "serve", str(tiny_embed), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--served-model-name", SERVED, "--max-model-len", "512", "--enforce-eager"]
    environ = os.environ | CPU_ENVIRONMENT | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    server = processes.start(argv, log=log, environ=environ)
    url = f"http://127.0.0.1:{port}"
    try:
        until("vLLM is up", lambda: server.poll() is not None or _is_up(url), START_S)
        assert server.poll() is None, log.read_text()[-4_000:]
        yield url
    finally:
        processes.stop(server, timeout_s=60)


@pytest.fixture(scope="module")
def gateway(pool: Pool, engine: str, tiny_embed: Path) -> Gateway:
    gateway = pool.gateway()
    content = (tiny_embed / "tokenizer.json").read_bytes()
    tokenizer = artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=content, now=clock.now())
    embedding.connect(pool, gateway, _through(engine), dimensions=LENGTH, tokenizer=tokenizer.sha256)
    with pool.client(gateway) as client:
        embedding.until_ready(client)
    return gateway


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _through(engine: str) -> Script:
    """Return a node that asks the engine as an agent does: through its front."""

    async def script(reply: Reply) -> None:
        head = RequestHead(**reply.head)
        call = front.admit(head, httpx.Request("POST", engine, json=reply.body).content, served_name=SERVED)
        async with (
            aiohttp.ClientSession() as http,
            http.request(
                call.method, engine + call.path, data=call.body, headers={"content-type": "application/json"}
            ) as answer,
        ):
            await reply.whole(await answer.json(), status=answer.status)

    return script


def _counted(engine: str) -> int:
    load = parse(httpx.get(f"{engine}/metrics", timeout=10, trust_env=False).text)
    assert load is not None
    return int(load.counters["prompt_tokens_total"])


def test_bytes_bound_what_its_tokenizer_makes(gateway: Gateway) -> None:
    assert CatalogModel.objects.get(public_id=EMBED).request_overhead_bytes == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"input": "hello gpu node"},
        {"input": ["hello", "gpu node pool, 世界 Grüße"]},
        {"input": [2, 50, 60, 3]},
        {"input": [[2, 50, 3], [2, 3]]},
        {"input": "hello", "encoding_format": "base64"},
    ],
)
def test_vectors_are_billed_as_vllm_counted_them(pool: Pool, gateway: Gateway, engine: str, fields: Any) -> None:
    before = _counted(engine)
    with pool.client(gateway) as client:
        answer = client.post("/v1/embeddings", json={"model": EMBED, **fields})

    assert answer.status_code == 200, answer.text
    record = pool.record(answer.headers["x-request-id"])
    assert record.prompt_tokens == answer.json()["usage"]["prompt_tokens"] == _counted(engine) - before
    assert record.prompt_tokens == record.counted_prompt_tokens == record.claimed_prompt_tokens
    assert (record.completion_tokens, record.token_source) == (0, "claim")


def test_the_official_client_reads_them(pool: Pool, gateway: Gateway) -> None:
    client = openai.OpenAI(api_key=pool.key, base_url=f"{gateway.url}/v1", max_retries=0)

    packed = client.embeddings.create(model=EMBED, input=["hello", "gpu"])
    listed = client.embeddings.create(model=EMBED, input=["hello", "gpu"], encoding_format="float")

    assert [len(row.embedding) for row in packed.data] == [LENGTH, LENGTH]
    assert packed.data[0].embedding == pytest.approx(listed.data[0].embedding, abs=1e-5)


def test_a_text_beyond_the_context_is_refused_before_the_engine_sees_it(
    pool: Pool, gateway: Gateway, engine: str
) -> None:
    before = _counted(engine)
    with pool.client(gateway) as client:
        answer = client.post("/v1/embeddings", json={"model": EMBED, "input": "price " * 600})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert _counted(engine) == before


async def test_an_embedding_engine_is_proven_by_a_vector(engine: str) -> None:
    async with aiohttp.ClientSession() as http:
        target = Target(base_url=engine, served_name=SERVED, max_concurrency=4)
        wanted = Desired(deployment="dep_1", model=SERVED, engine="vllm", desired="running", context_tokens=512)
        proof = await readiness.prove(http, target, desired=wanted)

    assert (proof.prompt_tokens > 0, proof.completion_tokens) == (True, 0)
