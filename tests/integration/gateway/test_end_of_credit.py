"""A stream longer than its customer's credit, over real processes: it ends in the band, charged for what came."""

import asyncio
import json
from collections.abc import Iterator

import httpx
import pytest

from portal.accounts.rules.terms import Budget
from portal.billing.models import LedgerAccount
from portal.billing.services import posting, reconcile
from portal.catalog.models import CatalogModel
from portal.core import clock
from portal.metering.models import UsageRecord
from tests.fakes.scripted_node import Reply
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = 800  # nano
CREDIT = 6_000 * TOKEN
SENTENCE = "The sea is deep and blue, and so is the sky above it. "
BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Go on."}], "max_tokens": 30_000, "stream": True}


async def _endless(reply: Reply) -> None:
    """Speak until somebody cancels."""
    await reply.begin()
    while True:
        await reply.delta(SENTENCE)
        await asyncio.sleep(0)


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Iterator[Gateway]:
    CatalogModel.objects.update(context_tokens=65_536, max_output_tokens=32_768)
    gateway = pool.gateway()
    pool.connect(pool.machine(), gateway, _endless)
    return gateway


def _stream(pool: Pool, gateway: Gateway, key: str) -> tuple[httpx.Response, str, list[dict]]:
    """Return the answer, its text and the events that are not text."""
    text, others = "", []
    with pool.client(gateway, key) as client, client.stream("POST", "/v1/chat/completions", json=BODY) as answer:
        for line in answer.iter_lines():
            assert line != "data: [DONE]"
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if "choices" in event:
                text += event["choices"][0]["delta"].get("content") or ""
            elif event:
                others.append(event)
    return answer, text, others


# sub2api#7002
def test_a_stream_ends_in_the_band_where_the_credit_does(pool: Pool, gateway: Gateway) -> None:
    customer = pool.organization(CREDIT)

    answer, text, events = _stream(pool, gateway, pool.known_key(gateway, customer))

    assert answer.status_code == 200
    (event,) = events
    assert (event["error"]["code"], event["error"]["type"]) == ("credit_balance_exhausted", "insufficient_quota")
    assert "The answer ends here" in event["error"]["message"]
    row = pool.record(answer.headers["x-request-id"], "credit_end")
    assert (row.error_code, row.delivered_bytes) == ("credit_balance_exhausted", len(text))
    assert 4_096 < row.completion_tokens < 6_000
    assert row.charge_nano == row.prompt_tokens * 200 + row.completion_tokens * TOKEN <= row.hold_nano <= CREDIT
    until("the node was told to stop", pool.nodes[0].replies[-1].canceled.is_set)
    posting.post_all(now=clock.now())
    account = LedgerAccount.objects.get(code=f"customer_credit:{customer.public_id}")
    assert account.credits - account.debits == CREDIT - row.charge_nano
    assert reconcile.differences(now=clock.now()) == []


def test_a_stream_ends_in_the_band_where_the_keys_budget_does(pool: Pool, gateway: Gateway) -> None:
    customer = pool.organization(100 * CREDIT)

    answer, _, events = _stream(pool, gateway, pool.known_key(gateway, customer, budget=Budget(CREDIT)))

    (event,) = events
    assert event["error"]["code"] == "key_budget_exhausted"
    assert "budget of this key" in event["error"]["message"]
    row = pool.record(answer.headers["x-request-id"], "credit_end")
    assert 0 < row.charge_nano <= CREDIT
    assert UsageRecord.objects.filter(request_id=row.request_id).count() == 1
