"""With Valkey gone, hanging or slow a process keeps to its part of each limit, and comes back by itself."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from portal.gateway.contracts import Limits
from portal.gateway.limits import LimitReached
from portal.gateway.limits.link import LinkDown
from tests.fakes.tcp_proxy import TcpProxy
from tests.integration.gateway_limits.rig import Gateways, gateways, key


@pytest.fixture
def proxy():
    """A way to Valkey that the test can break."""
    parts = urlsplit(settings.REDIS_URL)
    with TcpProxy(parts.hostname, parts.port) as made:
        yield made


@pytest.fixture
async def two(proxy: TcpProxy) -> AsyncIterator[Gateways]:
    async with gateways(f"redis://127.0.0.1:{proxy.port}{urlsplit(settings.REDIS_URL).path}") as made:
        for link in made.links:
            await link._beat()
            # Other tests' processes are seen here as well: this test's limits are divided by its own two.
            link._beating.cancel()
            link.processes = 2
        yield made


async def _until(what: str, probe) -> None:
    for _ in range(200):
        if probe():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(what)


async def _heal(two: Gateways, proxy: TcpProxy) -> None:
    for link in two.links:
        with contextlib.suppress(LinkDown):
            await link._beat()
    assert not any(link.is_up for link in two.links)
    proxy.heal()
    for link in two.links:
        link._beating = asyncio.create_task(link._beat_for_ever())
    await _until("both are back", lambda: all(link.is_up for link in two.links))


@pytest.mark.parametrize("fault", ["cut", "freeze"])
async def test_each_process_keeps_to_its_part_while_valkey_is_away(two: Gateways, proxy: TcpProxy, fault: str) -> None:
    entry = key(Limits(requests_per_minute=100, parallel_requests=1_000))
    for link in two.links:
        link._deadline_s = 0.2
    getattr(proxy, fault)()

    admitted = [len(await two.admitted(number, entry, at_most=200)) for number in (0, 1)]

    assert admitted == [50, 50]
    assert not any(link.is_up for link in two.links)
    two.watch.seconds += 6.0
    assert [len(await two.admitted(number, entry, at_most=200)) for number in (0, 1)] == [5, 5]


async def test_parallel_requests_are_parted_as_well(two: Gateways, proxy: TcpProxy) -> None:
    entry = key(Limits(parallel_requests=10))
    proxy.cut()

    slots = [await two.admitted(number, entry, at_most=20) for number in (0, 1)]
    with pytest.raises(LimitReached) as refusal:
        await two.enter(0, entry)
    two[0].leave(slots[0][0], used_tokens=0)
    again = await two.admitted(0, entry, at_most=20)

    assert [len(found) for found in slots] == [5, 5]
    assert refusal.value.code == "too_many_parallel_requests"
    assert len(again) == 1


async def test_what_was_used_before_valkey_went_counts(two: Gateways, proxy: TcpProxy) -> None:
    entry = key(Limits(requests_per_minute=100))
    before = [len(await two.admitted(number, entry, at_most=30)) for number in (0, 1)]
    await two.rest()
    for number in (0, 1):
        two[number]._owners[entry.public_id].refresh_soon()
        await two[number]._owners[entry.public_id].settled()
    proxy.cut()

    during = [len(await two.admitted(number, entry, at_most=200)) for number in (0, 1)]

    assert before == [30, 30]
    assert sum(during) == 40


async def test_what_was_used_alone_is_reported_when_valkey_is_back(two: Gateways, proxy: TcpProxy) -> None:
    entry = key(Limits(requests_per_minute=100, tokens_per_minute=10_000))
    proxy.cut()
    slots = await two.admitted(0, entry, at_most=20, tokens=100)
    for slot in slots:
        two[0].leave(slot, used_tokens=70)

    await _heal(two, proxy)
    await two.rest()
    elsewhere = await two.enter(1, entry)
    await two[1].reserve(elsewhere, 1)

    remaining = {name: value for name, value in elsewhere.headers() if b"remaining" in name}
    assert remaining == {
        b"x-ratelimit-remaining-requests": b"79",
        b"x-ratelimit-remaining-tokens": b"8599",
    }


async def test_running_requests_keep_their_places_through_an_outage(two: Gateways, proxy: TcpProxy) -> None:
    entry = key(Limits(parallel_requests=6))
    slots = await two.admitted(0, entry, at_most=4)
    proxy.cut()
    await two.admitted(0, entry, at_most=1)
    two[0].leave(slots[0], used_tokens=0)

    await _heal(two, proxy)
    two.pass_time(4.0)
    await two.rest()

    assert len(await two.admitted(1, entry, at_most=10)) == 3


async def test_a_slow_valkey_is_left_alone(two: Gateways) -> None:
    link = two.links[0]
    link._slow_s = 0.005

    for _ in range(19):
        link._judge(0.02)
    link._judge(0.001)
    for _ in range(19):
        link._judge(0.02)
    still = link.is_up
    link._judge(0.02)

    assert still
    assert not link.is_up


async def test_our_own_lateness_is_not_held_against_valkey(two: Gateways) -> None:
    link = two.links[0]
    link._slow_s, link._lag_s = 0.005, 0.05

    for _ in range(100):
        link._judge(0.03)

    assert link.is_up


async def test_a_process_that_leaves_is_no_longer_counted() -> None:
    async with gateways(settings.REDIS_URL, 1) as one:
        async with gateways(settings.REDIS_URL, 1):
            await one.links[0]._beat()
            together = one.links[0].processes
        await one.links[0]._beat()

    assert together >= 2
    assert one.links[0].processes == together - 1
