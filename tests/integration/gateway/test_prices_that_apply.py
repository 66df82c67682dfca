"""Which price a request is held and charged at, in a real process: agreed ones, ended ones, and one that begins while a
stream runs."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.core.management import call_command

from portal.accounts.models import Organization
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import PriceVersion
from portal.billing.rules.rating import Terms, charge_nano
from portal.billing.selectors import prices as selectors
from portal.billing.services import posting, price_ends, prices, recompute, share_tiers
from portal.billing.services.prices import Agreed
from portal.core import clock
from portal.core.money import NANO_PER_UNIT, per_token_text
from portal.metering.models import UsageRecord
from tests.factories.billing import TERMS
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply, usage
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

CHEAP = Terms(100_000_000, 10_000_000, 400_000_000, request_nano=7)
DEARER = Terms(900_000_000, 90_000_000, 4_000_000_000, request_nano=5_000)
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "What is a pool?"}], "max_tokens": 32}


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    return pool.gateway()


@dataclass
class Customer:
    """An organization with credit and a key that the gateway knows."""

    organization: Organization
    client: httpx.Client

    def completion_price(self) -> str:
        return str(self.client.get(f"/v1/models/{MODEL}").json()["pricing"]["completion"])

    def ask(self) -> httpx.Response:
        return self.client.post("/v1/chat/completions", json=ASKED)


@pytest.fixture
def customer(pool: Pool, gateway: Gateway) -> Iterator[Customer]:
    organization = pool.organization(100 * NANO_PER_UNIT)
    with pool.client(gateway, pool.known_key(gateway, organization)) as client:
        yield Customer(organization, client)
    pool.disconnect()


def _set(pool: Pool, terms: Terms, **given: Any) -> PriceVersion:
    now = clock.now()
    return prices.set_price(model=pool.model, terms=terms, actor=SYSTEM_ACTOR, now=now, **given)


def _public(pool: Pool) -> PriceVersion:
    return selectors.prices_at(at=clock.now())[pool.model.pk]


def _used(row: UsageRecord) -> dict[str, int]:
    return {"prompt": row.prompt_tokens, "cached": row.cached_tokens, "completion": row.completion_tokens}


def test_an_agreed_price_is_held_charged_recorded_and_shown(pool: Pool, gateway: Gateway, customer: Customer) -> None:
    pool.connect(pool.machine(), gateway, scripts.honest())
    public = _public(pool)
    agreed = _set(pool, CHEAP, agreed=Agreed(customer.organization))
    until("the agreement is known", lambda: customer.completion_price() == "0.0000004")

    answer = customer.ask()
    listed = {model["id"]: model for model in customer.client.get("/v1/models").json()["data"]}[MODEL]
    row = pool.record(answer.headers["x-request-id"])
    record = customer.client.get(f"/v1/requests/{answer.json()['id']}").json()
    with pool.client(gateway) as other:
        others = other.post("/v1/chat/completions", json=ASKED)
        others_model = other.get(f"/v1/models/{MODEL}").json()
    posting.post_usage(now=clock.now())

    assert (row.price_version_id, row.charge_nano) == (agreed.pk, charge_nano(price=CHEAP, **_used(row)))
    assert row.hold_nano < charge_nano(price=public, prompt=row.prompt_tokens, cached=0, completion=32)
    assert listed["pricing"] == {
        "prompt": "0.0000001",
        "completion": "0.0000004",
        "input_cache_read": "0.00000001",
        "request": "0.000000007",
    }
    assert listed["public_pricing"]["completion"] == per_token_text(public.completion_nano_per_mtok)
    assert (record["price"]["version"], record["price"]["scope"]) == (1, "own")
    assert [line["unit_price"] for line in record["price"]["lines"]] == ["0.0000001", "0.0000004", "0.000000007"]
    assert pool.record(others.headers["x-request-id"]).price_version_id == public.pk
    assert "public_pricing" not in others_model
    (charge,) = recompute.request(request_id=row.request_id)
    assert charge.is_right
    assert charge.booked_nano == row.charge_nano
    call_command("ledger_check")


def test_a_price_that_begins_while_a_stream_runs_does_not_touch_it(
    pool: Pool, gateway: Gateway, customer: Customer
) -> None:
    may_end = threading.Event()
    pool.connect(pool.machine(), gateway, _two_halves(may_end))
    before = _public(pool)
    with customer.client.stream("POST", "/v1/chat/completions", json=ASKED | {"stream": True}) as answer:
        lines = answer.iter_lines()
        next(line for line in lines if "content" in line)
        after = _set(pool, DEARER)
        until("the new price is known", lambda: customer.completion_price() == "0.000004")
        may_end.set()
        rest = list(lines)
    running = pool.record(answer.headers["x-request-id"])
    later = pool.record(customer.ask().headers["x-request-id"])
    _set(pool, TERMS)

    assert "data: [DONE]" in rest
    assert (running.price_version_id, running.charge_nano) == (before.pk, charge_nano(price=before, **_used(running)))
    assert running.charge_nano <= running.hold_nano
    assert running.hold_nano < charge_nano(price=DEARER, prompt=running.prompt_tokens, cached=0, completion=32)
    assert (later.price_version_id, later.charge_nano) == (after.pk, charge_nano(price=DEARER, **_used(later)))


def test_an_agreement_ends_by_its_date_and_when_it_is_ended(pool: Pool, gateway: Gateway, customer: Customer) -> None:
    pool.connect(pool.machine(), gateway, scripts.honest())
    usual = per_token_text(_public(pool).completion_nano_per_mtok)
    short = _set(pool, CHEAP, agreed=Agreed(customer.organization, clock.now() + timedelta(seconds=2)))
    until("the agreement is known", lambda: customer.completion_price() == "0.0000004")
    until("it is over by itself", lambda: customer.completion_price() == usual)
    public = pool.record(customer.ask().headers["x-request-id"])
    second = _set(pool, CHEAP, agreed=Agreed(customer.organization))
    until("the second one is known", lambda: customer.completion_price() == "0.0000004")

    price_ends.end_agreement(version_id=second.pk, reason="Over.", actor=SYSTEM_ACTOR, now=clock.now())
    until("it is ended", lambda: customer.completion_price() == usual)

    assert public.price_version_id not in {short.pk, second.pk}


def test_the_share_of_a_tier_is_pinned_in_the_record(pool: Pool, gateway: Gateway, customer: Customer) -> None:
    machine = pool.machine()
    pool.connect(machine, gateway, scripts.honest())
    now = clock.now()
    tier = share_tiers.make_tier(name="Verified", actor=SYSTEM_ACTOR, now=now)
    prices.set_share(provider=None, tier=tier, share_bps=9_100, actor=SYSTEM_ACTOR, now=now)
    share_tiers.move_provider(provider=machine.node.provider, tier=tier, actor=SYSTEM_ACTOR, now=now)

    def asked() -> UsageRecord:
        return pool.record(customer.ask().headers["x-request-id"])

    row = until("the tier's share holds", lambda: (found := asked()).share_bps == 9_100 and found)

    assert row.provider_nano == row.charge_nano * 9_100 // 10_000


def _two_halves(may_end: threading.Event) -> Any:
    """Stream a token, then wait until the rest may follow; whole answers come at once."""
    pieces = scripts.tokens(scripts.TEXT)

    async def script(reply: Reply) -> None:
        if not reply.body.get("stream"):
            await scripts.honest()(reply)
            return
        prompt = scripts.prompt_tokens(reply.body)
        await reply.begin()
        await reply.delta(pieces[0], usage=usage(prompt, 1))
        while not may_end.is_set():
            await asyncio.sleep(0.01)
        await reply.delta(pieces[1], usage=usage(prompt, 2))
        await reply.done(prompt=prompt, completion=3)

    return script
