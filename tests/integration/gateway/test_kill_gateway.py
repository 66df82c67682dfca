"""kill -9 of a gateway in the middle of its streams: nothing is lost, nothing is doubled, the ledger adds up."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from portal.billing.models import CreditLease, UsagePosting
from portal.billing.services import lease_sweep, posting, reconcile
from portal.core import clock
from portal.metering.models import UsageRecord
from tests.fakes import scripts
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

STREAMS = 20
TOKENS_A_SECOND = 20
TEXT = " ".join(f"word{number}" for number in range(300))
BODY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Go on."}],
    "max_tokens": 400,
    "stream": True,
}


@dataclass
class Watcher:
    """One customer who reads a stream until it breaks, and notes when each piece came."""

    request_id: str = ""
    pieces: list[tuple[float, str]] = field(default_factory=list)

    def read(self, url: str, key: str) -> None:
        headers = {"authorization": f"Bearer {key}"}
        try:
            with httpx.stream("POST", f"{url}/v1/chat/completions", json=BODY, headers=headers, timeout=30) as answer:
                self.request_id = answer.headers["x-request-id"]
                for line in answer.iter_lines():
                    if line.startswith("data: {"):
                        delta = json.loads(line[6:])["choices"][0]["delta"]
                        self.pieces.append((time.monotonic(), delta.get("content", "")))
        except httpx.HTTPError:
            return

    def tokens_until(self, moment: float) -> int:
        text = "".join(text for at, text in self.pieces if at <= moment)
        return len(scripts.tokens(text))


@pytest.fixture
def gateway(pool: Pool) -> Iterator[Gateway]:
    gateway = pool.gateway()
    pool.connect(pool.machine(concurrency=64), gateway, scripts.honest(TEXT, pause_s=1 / TOKENS_A_SECOND))
    yield gateway
    pool.disconnect()


def _watch(pool: Pool, gateway: Gateway) -> tuple[list[Watcher], list[threading.Thread]]:
    watchers = [Watcher() for _ in range(STREAMS)]
    threads = [threading.Thread(target=one.read, args=(gateway.url, pool.key)) for one in watchers]
    for thread in threads:
        thread.start()
    until("all streams run", lambda: all(len(one.pieces) > 30 for one in watchers), 30)
    return watchers, threads


def test_streams_are_settled_from_their_last_marks_and_closed_requests_stay(pool: Pool, gateway: Gateway) -> None:
    with pool.client(gateway) as client:
        closed = [client.post("/v1/chat/completions", json=BODY | {"stream": False, "max_tokens": 2}) for _ in range(5)]
    watchers, threads = _watch(pool, gateway)

    gateway.kill()
    killed_at = time.monotonic()
    for thread in threads:
        thread.join(10)
    gateway.start()

    ids = {one.request_id for one in watchers} | {answer.headers["x-request-id"] for answer in closed}
    rows = UsageRecord.objects.filter(request_id__in=ids)
    until("every request has its record", lambda: rows.count() == len(ids), 30)
    assert len(ids) == STREAMS + 5
    by_request = {str(row.request_id): row for row in rows}
    assert len(by_request) == rows.count(), "one record a request"
    for answer in closed:
        assert by_request[answer.headers["x-request-id"]].outcome == "completed"
    for one in watchers:
        row = by_request[one.request_id]
        assert row.outcome == "platform_crash"
        assert row.charge_nano > 0
        assert row.provider_nano > 0
        received, marked = one.tokens_until(killed_at + 10), one.tokens_until(killed_at - 1.5)
        assert marked <= row.completion_tokens <= received + TOKENS_A_SECOND
    _settle(ids)


def test_a_survivor_adopts_what_the_dead_one_left(pool: Pool, gateway: Gateway) -> None:
    survivor = pool.gateway(index=1)
    watchers, threads = _watch(pool, gateway)

    gateway.kill()
    for thread in threads:
        thread.join(10)

    ids = {one.request_id for one in watchers}
    rows = UsageRecord.objects.filter(request_id__in=ids)
    until("the survivor has shipped everything", lambda: rows.count() == STREAMS, 30)
    assert {row.outcome for row in rows} == {"platform_crash"}
    assert survivor.is_ready()
    _settle(ids)


def _settle(ids: set[str]) -> None:
    """Do what the worker does each second; prove that each charge was taken once and that the books add up."""

    def work() -> bool:
        posting.post_all(now=clock.now())
        lease_sweep.sweep(now=clock.now())
        return not _open_leases_of_the_dead()

    until("dead leases are closed", work, 20)
    assert UsagePosting.objects.filter(request_id__in=ids).count() == len(ids)
    assert reconcile.differences(now=clock.now()) == []


def _open_leases_of_the_dead() -> bool:
    return CreditLease.objects.exclude(state="closed").exclude(spool__state="open").exists()
