"""Where requests go, in a real process: sessions stay, full models wait, private nodes come first at their price."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.core.management import call_command

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import PriceVersion
from portal.billing.rules.rating import Terms, charge_nano
from portal.billing.services import posting, prices, recompute
from portal.core import clock
from portal.integrations import bus
from portal.metering.models import UsageRecord
from portal.nodes.models import NodeGuest
from portal.nodes.services import guests
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply, ScriptedNode
from tests.integration.gateway.pool import MODEL, Gateway, Machine, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

DEAR = Terms(900_000_000, 90_000_000, 4_000_000_000, request_nano=5_000)
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "What is a pool?"}], "max_tokens": 32}


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    return pool.gateway()


@pytest.fixture
def client(pool: Pool, gateway: Gateway) -> Iterator[httpx.Client]:
    with pool.client(gateway) as client:
        yield client
    pool.disconnect()


def _ask(client: httpx.Client, *, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json=ASKED | fields, headers=headers)


def _private(pool: Pool, gateway: Gateway, *, terms: Terms = DEAR) -> tuple[Machine, ScriptedNode, PriceVersion]:
    """A private node that the pool's customer has accepted at its own price."""
    machine = pool.machine()
    node = machine.node
    named = {"node_id": node.public_id, "actor": SYSTEM_ACTOR}
    guests.set_private(is_private=True, now=clock.now(), **named)
    price = prices.set_price(model=pool.model, terms=terms, actor=SYSTEM_ACTOR, now=clock.now(), provider=node.provider)
    guests.name_guest(organization_id=pool.customer.public_id, now=clock.now(), **named)
    guests.accept(organization=pool.customer, now=clock.now(), **named)
    return machine, pool.connect(machine, gateway, scripts.honest()), price


def test_a_session_stays_on_its_node_and_no_node_learns_of_it(
    pool: Pool, gateway: Gateway, client: httpx.Client
) -> None:
    nodes = [pool.connect(pool.machine(), gateway, scripts.honest()) for _ in range(3)]
    until("all nodes are known", lambda: _ask(client) and all(node.replies for node in nodes))
    sessions = [f"chat-{number}" for number in range(6)]

    served = [
        [_ask(client, headers={"x-session-id": session}).headers["x-pool-node"] for _ in range(4)]
        for session in sessions
    ]
    hinted = [_ask(client, prompt_cache_key=session).headers["x-pool-node"] for session in sessions]
    refused = _ask(client, headers={"x-session-id": "x" * 129})

    assert [len(set(of_session)) for of_session in served] == [1] * 6
    assert hinted == [of_session[0] for of_session in served]
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "x-session-id")
    seen = "".join(f"{reply.head}{reply.body}" for node in nodes for reply in node.replies)
    assert not [session for session in sessions if session in seen]


def test_a_full_models_request_waits_for_the_next_free_place(
    pool: Pool, gateway: Gateway, client: httpx.Client
) -> None:
    may_end = threading.Event()
    node = pool.connect(pool.machine(concurrency=1), gateway, _held(may_end))
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(_ask(client))) for _ in range(2)]
    for thread in threads:
        thread.start()
        until("the first has its place", lambda: node.replies)
    threading.Timer(0.3, may_end.set).start()
    for thread in threads:
        thread.join(10)

    assert [answer.status_code for answer in answers] == [200, 200]
    rows = [pool.record(answer.headers["x-request-id"]) for answer in answers]
    waited = [row.routing for row in rows if row.routing["by"] == "waited"]
    assert len(waited) == 1
    assert 100 < waited[0]["waited_ms"] < 2_000


def test_who_waits_in_vain_is_told_so_within_two_seconds(pool: Pool, gateway: Gateway, client: httpx.Client) -> None:
    may_end = threading.Event()
    node = pool.connect(pool.machine(concurrency=1), gateway, _held(may_end))
    thread = threading.Thread(target=lambda: _ask(client))
    thread.start()
    until("the first has its place", lambda: node.replies)

    refused = _ask(client)

    may_end.set()
    thread.join(10)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_capacity")
    assert "its nodes are full" in refused.json()["error"]["message"]
    assert refused.headers["retry-after"] == "1"
    assert len(node.replies) == 1


def test_the_record_says_that_the_retry_budget_stopped_a_retry(pool: Pool) -> None:
    frugal = pool.gateway(index=1, GATEWAY_RETRY_FLOOR="1")
    broken = scripts.engine_error(500, {"error": {"message": "EngineCore is dead", "code": 500}})
    for _ in range(3):
        pool.connect(pool.machine(), frugal, broken)

    with pool.client(frugal) as client:
        answer = _ask(client)
    pool.disconnect()

    rows = UsageRecord.objects.filter(request_id=answer.headers["x-request-id"]).order_by("attempt")
    first, second = until("two records", lambda: len(found := list(rows.all())) == 2 and found)
    assert answer.status_code == 502
    assert "retry_stopped_by" not in first.routing
    assert second.routing["retry_stopped_by"] == "budget"
    frugal.stop()


def test_what_can_never_be_served_does_not_wait(pool: Pool, gateway: Gateway) -> None:
    pool.connect(pool.machine(), gateway, scripts.honest())
    key = pool.new_key(pool.customer, countries=("FR",))
    with pool.client(gateway, key) as client:
        until("the key is known", lambda: client.get("/v1/models").status_code == 200, 3)
        refused = _ask(client)
    pool.disconnect()

    assert refused.status_code == 503
    assert "no node in the countries this key allows runs it" in refused.json()["error"]["message"]
    assert refused.headers["retry-after"] == "30"


def test_a_private_node_comes_first_at_its_price_and_the_books_agree(
    pool: Pool, gateway: Gateway, client: httpx.Client
) -> None:
    pool.connect(pool.machine(), gateway, scripts.honest())
    _, private, price = _private(pool, gateway)
    public = PriceVersion.objects.get(model=pool.model, provider=None)

    answer = _ask(client)
    models = client.get(f"/v1/models/{MODEL}").json()
    row: UsageRecord = pool.record(answer.headers["x-request-id"])
    record = client.get(f"/v1/requests/{answer.json()['id']}").json()
    pool.disconnect()
    posting.post_usage(now=clock.now())

    assert len(private.replies) == 1
    used = {"prompt": row.prompt_tokens, "cached": row.cached_tokens, "completion": row.completion_tokens}
    assert (row.price_version_id, row.charge_nano) == (price.pk, charge_nano(price=DEAR, **used))
    assert row.charge_nano != charge_nano(price=public, **used)
    assert row.hold_nano >= row.charge_nano
    assert models["pricing"]["completion"] == "0.000004"
    assert models["public_pricing"]["completion"] == "0.0000008"
    assert (record["price"]["scope"], record["attempts"][0]["routing"]["pool"]) == ("private", "private")
    (charge,) = recompute.request(request_id=row.request_id)
    assert charge.is_right
    assert charge.booked_nano == row.charge_nano
    call_command("ledger_check")


def test_without_its_private_node_a_request_goes_to_the_pool_unless_the_key_forbids(
    pool: Pool, gateway: Gateway, client: httpx.Client
) -> None:
    machine, private, _ = _private(pool, gateway)
    pool.connect(pool.machine(), gateway, scripts.honest())
    strict = pool.new_key(pool.customer, is_private_only=True)
    private.stop()
    pool.nodes.remove(private)

    until("the private tunnel is gone", lambda: _ask(client).headers.get("x-pool-node") != machine.node.public_id)
    answer = _ask(client)
    row = pool.record(answer.headers["x-request-id"])
    with pool.client(gateway, strict) as only_private:
        until("the key is known", lambda: only_private.get("/v1/models").status_code == 200, 3)
        refused = _ask(only_private)

    assert row.routing["pool"] == "public"
    assert row.routing["private_refused"]["tunnel"] >= 1
    assert row.price_version_id == PriceVersion.objects.get(model=pool.model, provider=None).pk
    # The request could have gone to the private node: its hold covers the dearer of the two prices.
    assert row.hold_nano > charge_nano(price=DEAR, prompt=50, cached=0, completion=32)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_capacity")


def test_nobody_else_is_served_by_a_private_node(pool: Pool, gateway: Gateway) -> None:
    _, private, _ = _private(pool, gateway)
    stranger = pool.organization(10**10)
    with pool.client(gateway, pool.known_key(gateway, stranger)) as client:
        answer = _ask(client)
        models = client.get(f"/v1/models/{MODEL}").json()
    pool.disconnect()

    assert answer.status_code == 503
    assert private.replies == []
    assert "public_pricing" not in models


def test_a_dearer_private_price_waits_for_the_customer(pool: Pool, gateway: Gateway, client: httpx.Client) -> None:
    machine, _, _ = _private(pool, gateway, terms=Terms(1, 1, 1))
    pool.connect(pool.machine(), gateway, scripts.honest())
    prices.set_price(model=pool.model, terms=DEAR, actor=SYSTEM_ACTOR, now=clock.now(), provider=machine.node.provider)

    answer = until("the gateway has heard", lambda: _not_from(machine, _ask(client)))
    row = pool.record(answer.headers["x-request-id"])
    NodeGuest.objects.filter(node=machine.node).update(accepted_at=clock.now())
    bus.announce("nodes", machine.node.public_id)

    assert row.routing["private_refused"] == {"price": 1, **_others(row)}
    until("the private node serves again", lambda: _ask(client).headers["x-pool-node"] == machine.node.public_id)


def _not_from(machine: Machine, answer: httpx.Response) -> httpx.Response | None:
    return answer if answer.headers["x-pool-node"] != machine.node.public_id else None


def _others(row: UsageRecord) -> dict[str, int]:
    """What the private nodes of tests before this one are refused for: their agents have gone."""
    return {name: count for name, count in row.routing["private_refused"].items() if name == "tunnel"}


def _held(may_end: threading.Event) -> Any:
    """Answer once the test lets it."""

    async def script(reply: Reply) -> None:
        while not may_end.is_set():
            await asyncio.sleep(0.01)
        await scripts.honest()(reply)

    return script
