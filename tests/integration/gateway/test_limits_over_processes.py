"""Limits over HTTP and two real processes: one quota for both, told on every answer."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from portal.accounts.rules.terms import LimitTerms
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

BODY: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20}
NAMES = {f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")}


@pytest.fixture(scope="module")
def gateways(pool: Pool) -> Iterator[list[Gateway]]:
    made = [pool.gateway(index) for index in (0, 1)]
    pool.connect(pool.machine(), made[0], _either)
    yield made
    pool.disconnect()


@contextmanager
def _clients(pool: Pool, gateways: list[Gateway], limits: LimitTerms) -> Iterator[list[httpx.Client]]:
    key = pool.new_key(pool.customer, limits=limits)
    with pool.client(gateways[0], key=key) as one, pool.client(gateways[1], key=key) as two:
        for client in (one, two):
            until("the key works", lambda client=client: client.get("/v1/models").status_code == 200, 3)
        yield [one, two]


# litellm#2730, litellm#10458, litellm#40291
def test_two_processes_share_one_quota_of_requests(pool: Pool, gateways: list[Gateway]) -> None:
    began = time.monotonic()
    with _clients(pool, gateways, LimitTerms(requests_per_minute=30)) as clients:
        answers = [clients[turn % 2].post("/v1/chat/completions", json=BODY) for turn in range(60)]
    refilled = (time.monotonic() - began) * 30 / 60

    codes = [answer.status_code for answer in answers]
    assert set(codes) == {200, 429}
    assert 30 <= codes.count(200) <= 30 + refilled
    assert all(answer.headers.keys() >= NAMES for answer in answers)
    refused = next(answer for answer in answers if answer.status_code == 429)
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert "is limited to 30 requests a minute" in error["message"]
    assert 0 < int(refused.headers["retry-after-ms"]) <= 2_000
    assert int(refused.headers["retry-after"]) == -(-int(refused.headers["retry-after-ms"]) // 1000)


# envoyproxy/ai-gateway#1754, wso2/api-platform#2932
def test_what_an_answer_used_is_what_the_next_has_less(pool: Pool, gateways: list[Gateway]) -> None:
    with _clients(pool, gateways, LimitTerms(tokens_per_minute=600)) as (one, two):
        began = time.monotonic()
        first = one.post("/v1/chat/completions", json=BODY)
        time.sleep(0.5)  # by now what the first process had in hand is back
        second = two.post("/v1/chat/completions", json=BODY)
        refilled = (time.monotonic() - began) * 600 / 60

    bound = 600 - int(first.headers["x-ratelimit-remaining-tokens"])
    used = first.json()["usage"]["total_tokens"]
    left = int(second.headers["x-ratelimit-remaining-tokens"])
    assert 1 < used < bound
    assert 600 - used - bound <= left <= 600 - used - bound + refilled


def test_parallel_requests_are_counted_over_both_processes(pool: Pool, gateways: list[Gateway]) -> None:
    with _clients(pool, gateways, LimitTerms(parallel_requests=2)) as (one, two), ExitStack() as streams:
        slow = BODY | {"stream": True, "messages": [{"role": "user", "content": "slowly"}]}
        for client in (one, two):
            streams.enter_context(client.stream("POST", "/v1/chat/completions", json=slow))
        refused = two.post("/v1/chat/completions", json=BODY)
        streams.close()
        until("a place is free again", lambda: one.post("/v1/chat/completions", json=BODY).status_code == 200, 5)

    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_parallel_requests")
    assert "may run 2 requests at once" in refused.json()["error"]["message"]


async def _either(reply: Reply) -> None:
    """Answer at once, or in a second where that is asked for."""
    is_slow = reply.body["messages"][0]["content"] == "slowly"
    await scripts.honest("Well, well, well.", pause_s=0.2 if is_slow else 0.0)(reply)
