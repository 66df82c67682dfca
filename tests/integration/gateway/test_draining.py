"""A deploy: one process goes, the other stays; no stream is cut, whoever admitted it and whoever holds its tunnel."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from portal.metering.models import UsageRecord
from tests.fakes import scripts
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

GOOD: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "What is a pool?"}]}
LONG = " ".join(f"word{number}" for number in range(40))


@pytest.fixture
def going(pool: Pool) -> Gateway:
    return pool.gateway(index=0, GATEWAY_DRAIN_S="20")


@pytest.fixture
def staying(pool: Pool) -> Gateway:
    return pool.gateway(index=1)


def _stream(stack: ExitStack, client: httpx.Client) -> Iterator[str]:
    body = GOOD | {"stream": True, "max_tokens": 400}
    response = stack.enter_context(client.stream("POST", "/v1/chat/completions", json=body))
    lines = response.iter_lines()
    assert next(lines).startswith("data: ")
    return lines


def test_sigterm_ends_no_stream_and_new_requests_go_to_the_other_process(
    pool: Pool, going: Gateway, staying: Gateway
) -> None:
    machine = pool.machine()
    node = pool.connect(machine, going, scripts.honest(LONG, pause_s=0.03))
    with ExitStack() as stack:
        own, neighbour = (stack.enter_context(pool.client(gateway)) for gateway in (going, staying))
        kept = stack.enter_context(pool.client(going))
        assert kept.get("/healthz").status_code == 200
        until(
            "both serve",
            lambda: all(c.post("/v1/chat/completions", json=GOOD).status_code == 200 for c in (own, neighbour)),
        )
        streams = [_stream(stack, own), _stream(stack, neighbour)]

        assert going.process is not None
        going.process.send_signal(signal.SIGTERM)
        until("the agent is sent away", node.was_sent_away.is_set, 5)
        moved = pool.dial(machine, staying, scripts.honest(), token=node.token)
        until("the other process serves", lambda: _serves(neighbour) and moved.replies, 5)
        refused = kept.post("/v1/chat/completions", json=GOOD)
        texts = ["".join(lines) for lines in streams]

    assert all(text.endswith("data: [DONE]") for text in texts)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
    assert int(refused.headers["retry-after"]) >= 1
    assert going.process.wait(10) == -signal.SIGTERM  # uvicorn ends by the signal that it was sent, having drained
    moved.stop()


def _serves(client: httpx.Client) -> bool:
    return client.post("/v1/chat/completions", json=GOOD | {"max_tokens": 2}).status_code == 200


def test_the_time_to_drain_is_bounded(pool: Pool) -> None:
    going = pool.gateway(index=2, GATEWAY_DRAIN_S="1")
    pool.connect(pool.machine(), going, scripts.silent_after_token)
    with pool.client(going) as client, ExitStack() as stack:
        lines = _stream(stack, client)
        assert going.process is not None
        going.process.send_signal(signal.SIGTERM)

        rest = "".join(lines)

    assert "[DONE]" not in rest
    assert '"code":"draining"' in rest
    assert going.process.wait(15) == -signal.SIGTERM
    record = until("its record", UsageRecord.objects.filter(error_code="draining").first)
    assert (record.outcome, record.completion_tokens) == ("platform_crash", 2)
    assert record.charge_nano > 0
