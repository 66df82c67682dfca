"""Places of running requests: shared by all processes, and never leaked."""

import asyncio

import pytest
from django.conf import settings

from portal.gateway.contracts import Limits
from portal.gateway.limits import LimitReached
from tests.integration.gateway_limits.rig import gateways, key, with_limits


@pytest.mark.parametrize("limit", [1, 4, 40, 1_000])
async def test_parallel_requests_are_the_limit_over_all_processes(limit: int) -> None:
    entry = key(Limits(parallel_requests=limit))

    async with gateways(settings.REDIS_URL, 3) as three:
        slots = [await three.admitted(number % 3, entry, at_most=limit // 4 + 1) for number in range(15)]
        with pytest.raises(LimitReached) as refusal:
            await three.enter(0, entry)

    assert sum(map(len, slots)) == limit
    assert refusal.value.code == "too_many_parallel_requests"
    assert f"key {entry.public_id} may run {limit} requests at once" in refusal.value.message
    assert dict(refusal.value.headers)[b"retry-after"] == b"1"


async def test_a_place_that_came_free_can_be_had_on_another_process_at_once() -> None:
    entry = key(Limits(parallel_requests=3))

    async with gateways(settings.REDIS_URL) as two:
        slots = await two.admitted(0, entry, at_most=3)
        for slot in slots:
            two[0].leave(slot, used_tokens=0)
            two[0].leave(slot, used_tokens=0)
        elsewhere = await two.admitted(1, entry, at_most=5)

    assert (len(slots), len(elsewhere)) == (3, 3)


async def test_places_held_ahead_are_called_in_when_another_process_needs_them() -> None:
    entry = key(Limits(parallel_requests=1_000))

    async with gateways(settings.REDIS_URL) as two:
        running = await two.admitted(0, entry, at_most=1)
        ahead = next(iter(two[0]._kept)).places.free
        elsewhere = await two.admitted(1, entry, at_most=2_000)

    assert ahead > 0
    assert (len(running), len(elsewhere)) == (1, 999)


# litellm#16011, litellm#20256, litellm#27955, litellm#28160
async def test_cancelled_requests_leave_no_place_behind() -> None:
    entry = key(Limits(parallel_requests=5, requests_per_minute=1_000), organization=Limits(parallel_requests=5))

    async with gateways(settings.REDIS_URL) as two:
        for turn in range(30):
            asking = [asyncio.create_task(two.enter(turn % 2, entry)) for _ in range(5)]
            for _ in range(turn % 6):
                await asyncio.sleep(0)
            for task in asking:
                task.cancel()
            for slot in await asyncio.gather(*asking, return_exceptions=True):
                if not isinstance(slot, BaseException):
                    two[turn % 2].leave(slot, used_tokens=0)
            await two.rest()
        running = [owner.places.running for limiter in two.limiters for owner in limiter._owners.values()]
        admitted = await two.admitted(0, entry, at_most=10)

    assert set(running) == {0}
    assert len(admitted) == 5


async def test_places_of_a_dead_process_are_free_after_its_lease() -> None:
    entry = key(Limits(parallel_requests=4, requests_per_minute=1_000))

    async with gateways(settings.REDIS_URL, lease_s=10.0) as two:
        held = await two.admitted(0, entry, at_most=3)
        before = await two.admitted(1, entry, at_most=10)
        two.die(0)
        two.pass_time(9.9)
        nearly = await two.admitted(1, entry, at_most=10)
        two.pass_time(0.2)
        after = await two.admitted(1, entry, at_most=10)

    assert (len(held), len(before), len(nearly), len(after)) == (3, 1, 0, 3)


async def test_places_of_long_streams_are_renewed() -> None:
    entry = key(Limits(parallel_requests=4))

    async with gateways(settings.REDIS_URL, lease_s=10.0) as two:
        await two.admitted(0, entry, at_most=4)
        for _ in range(20):
            two.pass_time(3.5)
            two[0].keep()
            await asyncio.gather(*[owner.settled() for owner in two[0]._kept])
        elsewhere = await two.admitted(1, entry, at_most=1)

    assert elsewhere == []


async def test_a_lower_limit_lets_nobody_in_until_enough_have_left() -> None:
    entry = key(Limits(parallel_requests=6))

    async with gateways(settings.REDIS_URL) as two:
        slots = await two.admitted(0, entry, at_most=6)
        lower = with_limits(entry, parallel_requests=4)
        for slot in slots[:2]:
            two[0].leave(slot, used_tokens=0)
        refused = [await two.admitted(number, lower, at_most=1) for number in (0, 1)]
        two[0].leave(slots[2], used_tokens=0)
        admitted = [len(await two.admitted(number, lower, at_most=5)) for number in (1, 0)]

    assert refused == [[], []]
    assert sum(admitted) == 1


async def test_the_process_knows_when_nothing_runs() -> None:
    entry = key()

    async with gateways(settings.REDIS_URL, 1) as one:
        slot = await one.enter(0, entry)
        idle = asyncio.create_task(one[0].until_idle())
        await asyncio.sleep(0.01)
        before = (one[0].running, idle.done())
        one[0].leave(slot, used_tokens=0)
        await asyncio.wait_for(idle, 1)

    assert before == (1, False)
    assert one[0].running == 0
