"""Limits hold over all processes together: what they admit is the limit, whoever is asked."""

import asyncio

import pytest
from django.conf import settings

from portal.core import ids
from portal.gateway.contracts import Limits
from portal.gateway.limits import LimitReached
from tests.integration.gateway_limits.rig import gateways, key, shown, with_limits


# litellm#2730, litellm#10458, litellm#40291
@pytest.mark.parametrize("limit", [1, 7, 60, 1_000, 5_000])
async def test_requests_a_minute_are_the_limit_and_not_the_limit_times_replicas(limit: int) -> None:
    entry = key(Limits(requests_per_minute=limit))

    async with gateways(settings.REDIS_URL, 3) as three:
        admitted = [await three.admitted(number % 3, entry, at_most=limit // 7 + 1) for number in range(30)]

    assert sum(map(len, admitted)) == limit


async def test_tokens_a_minute_are_the_limit_and_not_the_limit_times_replicas() -> None:
    entry = key(Limits(tokens_per_minute=100_000))

    async with gateways(settings.REDIS_URL) as two:
        admitted = [await two.admitted(number % 2, entry, at_most=9, tokens=500) for number in range(30)]

    assert sum(map(len, admitted)) == 200


async def test_many_at_once_on_every_process_get_exactly_the_limit() -> None:
    entry = key(Limits(requests_per_minute=100))

    async with gateways(settings.REDIS_URL, 4) as four:
        asked = [four.enter(number % 4, entry) for number in range(400)]
        answers = await asyncio.gather(*asked, return_exceptions=True)

    refused = [answer for answer in answers if isinstance(answer, LimitReached)]
    assert (len(answers) - len(refused), len(refused)) == (100, 300)
    assert {refusal.code for refusal in refused} == {"rate_limit_exceeded"}


async def test_one_process_alone_can_use_the_whole_limit_after_others_used_a_part() -> None:
    entry = key(Limits(requests_per_minute=10_000))

    async with gateways(settings.REDIS_URL) as two:
        first = await two.admitted(0, entry, at_most=5)
        await two.rest()
        second = await two.admitted(1, entry, at_most=20_000)

    assert (len(first), len(second)) == (5, 9_995)


async def test_what_another_process_has_in_hand_is_called_in_when_it_is_needed() -> None:
    entry = key(Limits(requests_per_minute=10_000))

    async with gateways(settings.REDIS_URL) as two:
        first = await two.admitted(0, entry, at_most=5)
        in_hand = next(iter(two[0]._kept)).requests.hand
        second = await two.admitted(1, entry, at_most=20_000)

    assert in_hand > 0
    assert (len(first), len(second)) == (5, 9_995)


# envoyproxy/ai-gateway#1754, wso2/api-platform#2932
@pytest.mark.parametrize(("bound", "used"), [(5_000, 1_234), (5_000, 5_000), (40, 0), (900, 901)])
async def test_n_tokens_lower_what_remains_by_n(bound: int, used: int) -> None:
    entry = key(Limits(tokens_per_minute=1_000_000))

    async with gateways(settings.REDIS_URL) as two:
        slot = await two.enter(0, entry)
        await two[0].reserve(slot, bound)
        during = shown(slot, "remaining-tokens")
        two[0].leave(slot, used_tokens=used)
        after = shown(await two.enter(0, entry), "remaining-tokens")
        await two.rest()
        elsewhere = await two.enter(1, entry)
        await two[1].reserve(elsewhere, 1)

    assert (during, after) == (1_000_000 - bound, 1_000_000 - used)
    assert shown(elsewhere, "remaining-tokens") == 1_000_000 - used - 1


async def test_a_request_lowers_what_remains_by_one_on_every_process() -> None:
    entry = key(Limits(requests_per_minute=500))

    async with gateways(settings.REDIS_URL) as two:
        shares = []
        for number in range(6):
            shares.append(shown(await two.enter(number % 2, entry), "remaining-requests"))
            await two.rest()

    assert shares == [499, 498, 497, 496, 495, 494]


async def test_the_minute_refills_evenly() -> None:
    entry = key(Limits(requests_per_minute=60))

    async with gateways(settings.REDIS_URL) as two:
        assert len(await two.admitted(0, entry, at_most=100)) == 60
        two.pass_time(10.0)
        later = [len(await two.admitted(number, entry, at_most=100)) for number in (1, 0)]
        two.pass_time(3_600.0)
        much_later = [len(await two.admitted(number, entry, at_most=100)) for number in (0, 1)]

    assert sum(later) == 10
    assert sum(much_later) == 60


async def test_what_lay_in_hand_for_a_minute_is_not_given_out_twice() -> None:
    entry = key(Limits(requests_per_minute=5_000))

    async with gateways(settings.REDIS_URL) as two:
        await two.admitted(0, entry, at_most=1)
        in_hand = next(iter(two[0]._kept)).requests.hand
        two.pass_time(9.0)
        admitted = [len(await two.admitted(number, entry, at_most=10_000)) for number in (0, 1)]

    assert in_hand > 0
    assert sum(admitted) == 5_000


async def test_more_keys_are_not_more_quota() -> None:
    whole = Limits(requests_per_minute=50)
    name = ids.public_id("org")
    entries = [key(Limits(requests_per_minute=40), organization=whole, of=name) for _ in range(5)]

    async with gateways(settings.REDIS_URL) as two:
        admitted = [len(await two.admitted(turn % 2, entry, at_most=40)) for turn, entry in enumerate(entries)]
        with pytest.raises(LimitReached) as refusal:
            await two.enter(0, entries[-1])

    assert sum(admitted) == 50
    assert f"organization {name}, over all its keys and projects, is limited to 50 requests" in refusal.value.message


async def test_a_request_that_one_owner_refuses_costs_the_others_nothing() -> None:
    entry = key(
        Limits(requests_per_minute=100, tokens_per_minute=10_000),
        project=Limits(requests_per_minute=100),
        organization=Limits(requests_per_minute=3, tokens_per_minute=500),
    )

    async with gateways(settings.REDIS_URL) as two:
        slots = await two.admitted(0, entry, at_most=10)
        with pytest.raises(LimitReached):
            await two[0].reserve(slots[0], 501)
        for slot in slots:
            two[0].leave(slot, used_tokens=0)
        owners = {owner.kind: owner for owner in two[0]._owners.values()}
        left = {kind: owner.requests.remaining(two.watch()) for kind, owner in owners.items()}
        tokens = {kind: owners[kind].tokens.remaining(two.watch()) for kind in ("key", "organization")}
        running = {owner.places.running for owner in owners.values()}

    assert left == {"key": 97, "project": 97, "organization": 0}
    assert tokens == {"key": 10_000, "organization": 500}
    assert running == {0}


async def test_a_new_limit_holds_at_once() -> None:
    entry = key(Limits(requests_per_minute=100))

    async with gateways(settings.REDIS_URL) as two:
        before = await two.admitted(0, entry, at_most=40)
        lower = with_limits(entry, requests_per_minute=50)
        after = [len(await two.admitted(number, lower, at_most=100)) for number in (0, 1)]
        higher = with_limits(entry, requests_per_minute=120)
        again = [len(await two.admitted(number, higher, at_most=200)) for number in (1, 0)]

    assert len(before) == 40
    assert sum(after) == 10
    assert sum(again) == 70


async def test_a_request_larger_than_the_minute_is_refused_for_good_and_says_so() -> None:
    entry = key(Limits(tokens_per_minute=1_000))

    async with gateways(settings.REDIS_URL) as two:
        slot = await two.enter(0, entry)
        with pytest.raises(LimitReached) as refusal:
            await two[0].reserve(slot, 1_001)

    assert "can use up to 1001 tokens, more than the 1000 a minute of the key" in refusal.value.message
    assert dict(refusal.value.limits)[b"x-should-retry"] == b"false"


async def test_a_refusal_says_whose_limit_it_is_and_when_to_retry() -> None:
    entry = key(Limits(requests_per_minute=2))

    async with gateways(settings.REDIS_URL) as two:
        await two.admitted(0, entry, at_most=2)
        two.pass_time(1.0)
        with pytest.raises(LimitReached) as refusal:
            await two.enter(1, entry)

    assert (refusal.value.status, refusal.value.code) == (429, "rate_limit_exceeded")
    assert dict(refusal.value.headers) == {b"retry-after": b"29", b"retry-after-ms": b"29000"}
    assert dict(refusal.value.limits)[b"x-ratelimit-limit-requests"] == b"2"
    assert dict(refusal.value.limits)[b"x-ratelimit-remaining-requests"] == b"0"
    assert dict(refusal.value.limits)[b"x-ratelimit-reset-requests"] == b"59s"
    assert refusal.value.message == (
        f"The key {entry.public_id} is limited to 2 requests a minute; retry in 29.00 s. "
        "The limit is whole again in 59.00 s."
    )


async def test_the_usual_request_asks_nobody() -> None:
    entry = key(Limits(requests_per_minute=100_000, tokens_per_minute=100_000_000, parallel_requests=1_000))

    async with gateways(settings.REDIS_URL) as two:
        for _ in range(500):
            slot = await two.enter(0, entry)
            await two[0].reserve(slot, 100)
            two[0].leave(slot, used_tokens=60)
        calls = two.links[0].calls

    assert calls < 25


async def test_a_look_shows_what_all_processes_left() -> None:
    entry = key(Limits(requests_per_minute=50, tokens_per_minute=1_000), project=Limits(requests_per_minute=40))

    async with gateways(settings.REDIS_URL) as two:
        (slot,) = await two.admitted(0, entry, at_most=1, tokens=300)
        two[0].leave(slot, used_tokens=120)
        await two.rest()
        seen = await two[1].standing(entry)
        left = [(owner.kind, owner.requests.remaining(two.watch()), owner.tokens.size) for owner in seen]
        tokens = seen[0].tokens.remaining(two.watch())

    assert left == [("key", 49, 1_000), ("project", 39, 0)]
    assert tokens == 880
