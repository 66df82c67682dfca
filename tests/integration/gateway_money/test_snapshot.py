"""A revoked key is refused within a second on either channel and by poll; blind for ten seconds is stale."""

import asyncio
import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connections, transaction

from portal.accounts.models import Organization, OrganizationState
from portal.accounts.services import keys
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.rules.rating import Terms
from portal.billing.services import prices
from portal.core import clock, ids
from portal.gateway import snapshot
from portal.gateway.snapshot import SnapshotStore
from portal.integrations import bus
from portal.nodes.models import Deployment, EngineKind, NodeState, ObservedState
from portal.providers.models import ProviderKind, ProviderState
from portal.trust.models import TokenBias
from tests.factories.accounts import ApiKeyFactory
from tests.factories.billing import DELIVERED, Market
from tests.fakes.tcp_proxy import TcpProxy
from tests.integration.gateway_money.rig import run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def market() -> Market:
    return Market(lease_nano=0)


@pytest.fixture
def postgres(monkeypatch):
    database = settings.DATABASES["default"]
    with TcpProxy(database["HOST"], int(database["PORT"])) as proxy:
        yield proxy


@pytest.fixture
def valkey():
    host, port = settings.REDIS_URL.removeprefix("redis://").split("/")[0].split(":")
    with TcpProxy(host, int(port)) as proxy:
        yield proxy


def _urls(postgres: TcpProxy, valkey: TcpProxy) -> dict[str, str]:
    database = settings.DATABASES["default"]
    return {
        "direct_url": f"postgresql://{database['USER']}@127.0.0.1:{postgres.port}/{connections['default'].settings_dict['NAME']}",
        "redis_url": f"redis://127.0.0.1:{valkey.port}/0",
    }


async def _following(store: SnapshotStore) -> None:
    await store.start()
    await asyncio.sleep(0.3)


async def _within(seconds: float, probe) -> float:
    """Return after how many seconds the probe became true."""
    started = time.monotonic()
    while not probe():
        if time.monotonic() - started > seconds:
            raise AssertionError(f"not within {seconds} s")
        await asyncio.sleep(0.005)
    return time.monotonic() - started


def _in_thread(call, **arguments):
    def whole():
        try:
            return call(**arguments)
        finally:
            connections.close_all()

    return asyncio.to_thread(whole)


def _entry(store: SnapshotStore, public_id: str):
    return next((entry for entry in store.current.keys.values() if entry.public_id == public_id), None)


def _is_refused(store: SnapshotStore, public_id: str) -> bool:
    entry = _entry(store, public_id)
    return entry is None or entry.is_revoked


def _revoke(market: Market):
    return _in_thread(
        keys.revoke_key,
        organization=market.customer,
        public_id=market.key.public_id,
        actor=SYSTEM_ACTOR,
        now=clock.now(),
    )


@pytest.mark.parametrize("cut", ["nothing", "postgres", "valkey"])
def test_a_revoked_key_is_refused_within_a_second_by_either_channel(market, postgres, valkey, monkeypatch, cut):
    monkeypatch.setattr(snapshot, "_POLL_S", 30.0)

    async def scenario():
        store = SnapshotStore("gateway@0", **_urls(postgres, valkey))
        await _following(store)
        try:
            assert not _is_refused(store, market.key.public_id)
            {"nothing": lambda: None, "postgres": postgres.cut, "valkey": valkey.cut}[cut]()
            await _revoke(market)
            return await _within(1.0, lambda: _is_refused(store, market.key.public_id))
        finally:
            await store.stop()

    assert run(scenario) < 1.0


def test_the_poll_alone_finds_a_revoked_key_within_a_second_and_a_half(market, postgres, valkey):
    async def scenario():
        store = SnapshotStore("gateway@0", **_urls(postgres, valkey))
        await _following(store)
        postgres.cut()
        valkey.cut()
        try:
            await _revoke(market)
            return await _within(1.5, lambda: _is_refused(store, market.key.public_id))
        finally:
            await store.stop()

    run(scenario)


def test_a_change_that_cannot_be_read_refuses_the_key_until_it_can(market, postgres, valkey, monkeypatch):
    other = ApiKeyFactory(organization=market.customer)
    database = settings.DATABASES["default"]

    async def scenario():
        store = SnapshotStore("gateway@0", **_urls(postgres, valkey))
        await _following(store)
        try:
            await store._thread.run(connections.close_all)
            real = database["PORT"]
            monkeypatch.setitem(database, "PORT", str(postgres.port))
            postgres.cut()
            store._take(f"keys:{market.key.public_id}")
            seconds = await _within(1.0, lambda: _is_refused(store, market.key.public_id))
            assert not _is_refused(store, other.public_id)
            monkeypatch.setitem(database, "PORT", real)
            postgres.heal()
            await _within(5.0, lambda: not _is_refused(store, market.key.public_id))
            return seconds
        finally:
            await store.stop()

    assert run(scenario) < 1.0


def test_blind_for_ten_seconds_is_stale_and_any_contact_heals_it(market, postgres, valkey, monkeypatch):
    monkeypatch.setattr(snapshot, "STALE_AFTER_S", 1.5)
    database = settings.DATABASES["default"]
    monkeypatch.setitem(database, "PORT", str(postgres.port))

    async def scenario():
        store = SnapshotStore("gateway@0", **_urls(postgres, valkey))
        await _following(store)
        try:
            assert not store.is_stale(time.monotonic())
            postgres.cut()
            await asyncio.sleep(2.0)
            assert not store.is_stale(time.monotonic())
            valkey.cut()
            await _within(4.0, lambda: store.is_stale(time.monotonic()))
            valkey.heal()
            await _within(4.0, lambda: not store.is_stale(time.monotonic()))
        finally:
            await store.stop()
            postgres.heal()

    run(scenario)


def test_messages_reach_those_who_subscribed(market, postgres, valkey):
    heard: list[str] = []
    subject = ids.random_text(20)  # Valkey carries the announcements of other test runs too

    async def scenario():
        store = SnapshotStore("gateway@0", **_urls(postgres, valkey))
        store.subscribe("leases", heard.append)
        await _following(store)
        try:
            await _in_thread(_announce, subject=subject)
            await _within(1.0, lambda: heard.count(subject) == 2)
        finally:
            await store.stop()

    run(scenario)


def _announce(*, subject: str) -> None:
    with transaction.atomic():
        bus.announce("leases", subject)


def _loaded() -> snapshot.Snapshot:
    return snapshot.SnapshotLoader().load(now=DELIVERED)


def test_the_snapshot_has_keys_by_digest_with_their_organizations_state(market):
    Organization.objects.filter(pk=market.customer.pk).update(state=OrganizationState.SUSPENDED)

    entry = _loaded().keys[bytes.fromhex(market.key.digest)]

    assert (entry.id, entry.organization, entry.is_organization_active) == (
        market.key.pk,
        market.customer.public_id,
        False,
    )


def test_the_snapshot_has_the_price_of_now_and_those_to_come(market):
    future = Terms(1, 1, 1)
    prices.set_price(
        model=market.model,
        terms=future,
        actor=SYSTEM_ACTOR,
        now=DELIVERED,
        effective_from=DELIVERED + timedelta(days=1),
    )
    prices.set_price(model=market.model, terms=future, actor=SYSTEM_ACTOR, now=DELIVERED - timedelta(days=1))

    entry = _loaded().models[market.model.public_id]

    assert [price.version for price in entry.prices] == [3, 2]
    assert entry.prices[0].effective_from < DELIVERED.timestamp() < entry.prices[1].effective_from


def _deploy(market: Market) -> None:
    market.node.state = NodeState.SERVING
    market.node.save()
    Deployment.objects.create(
        node=market.node,
        model=market.model,
        engine=EngineKind.SIMULATE,
        observed=ObservedState.READY,
        max_concurrency=4,
        created_at=DELIVERED,
    )


def test_a_serving_node_is_routable_with_its_providers_share(market):
    _deploy(market)

    loaded = _loaded()

    (node,) = loaded.nodes_by_model[market.model.pk]
    assert (node.id, node.models, node.share_bps) == (market.node.pk, {market.model.pk: 4}, 8000)
    assert loaded.nodes[market.node.pk] is node


def test_a_house_node_earns_nothing(market):
    _deploy(market)
    market.provider.kind = ProviderKind.HOUSE
    market.provider.save()

    assert _loaded().nodes[market.node.pk].share_bps == 0


def test_a_node_of_a_provider_who_may_not_serve_is_known_but_not_routed_to(market):
    _deploy(market)
    market.provider.state = ProviderState.SUSPENDED
    market.provider.save()

    loaded = _loaded()

    assert market.node.pk in loaded.nodes
    assert loaded.nodes_by_model == {}


def test_a_lost_tolerance_and_weight_are_in_the_snapshot(market):
    _deploy(market)
    TokenBias.objects.create(
        node=market.node,
        model=market.model,
        counted_completion_tokens=5_000,
        has_tolerance=False,
        updated_at=DELIVERED,
    )

    node = _loaded().nodes[market.node.pk]

    assert (node.models_without_tolerance, node.trust_weight) == (frozenset({market.model.pk}), 0.5)


def test_nothing_is_built_anew_where_nothing_changed(market):
    loader = snapshot.SnapshotLoader()
    first = loader.load(now=DELIVERED)

    same = loader.load(now=DELIVERED + timedelta(seconds=1))
    ApiKeyFactory(organization=market.customer)
    changed = loader.load(now=DELIVERED + timedelta(seconds=2))

    assert same is first
    assert len(changed.keys) == len(first.keys) + 1
    assert changed.models is first.models
