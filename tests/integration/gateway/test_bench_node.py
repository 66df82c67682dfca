"""The bench's stand-in node serves real requests through a real gateway: what is measured is the whole way."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest

from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

_ROOT = Path(__file__).parents[3]
_TOKENS = 10


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    return pool.gateway()


@pytest.fixture(params=[1, 4], ids=["alone", "in fours"])
def client(pool: Pool, gateway: Gateway, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    sessions = tmp_path / "sessions"
    sessions.write_text(pool.machine().session())
    options = ["--tokens-file", sessions, "--tokens", _TOKENS, "--gap", 0.001, "--batch", request.param]
    argv = [sys.executable, "-m", "tests.bench.tunnel_node", gateway.port, *options]
    with subprocess.Popen([str(part) for part in argv], cwd=_ROOT) as node, pool.client(gateway) as client:
        try:
            until("the gateway routes to it", lambda: _ask(client).status_code == 200)
            yield client
        finally:
            node.terminate()


def _ask(client: httpx.Client, **more: object) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 128, **more}
    return client.post("/v1/chat/completions", json=body)


def test_a_whole_answer_and_a_stream_come_through_with_their_counts(client: httpx.Client) -> None:
    whole = _ask(client).json()
    lines = _ask(client, stream=True, stream_options={"include_usage": True}).text.split("\n\n")

    assert whole["choices"][0]["message"]["content"] == "Hello there, this is a short answer."
    assert lines[-2] == "data: [DONE]"
    events = [orjson.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    texts = [choice["delta"].get("content", "") for event in events for choice in event["choices"]]
    assert "".join(texts) == " token" * _TOKENS
    assert events[-1]["usage"]["completion_tokens"] == _TOKENS
