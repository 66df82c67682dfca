"""Limiters as several gateway processes have them, on one Valkey, with a clock that the test moves."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import redis.asyncio

from portal.core import ids
from portal.gateway.config import GatewayConfig
from portal.gateway.contracts import KeyEntry, Limits
from portal.gateway.limits import TOPIC, Limiter, LimitReached, Slot, ValkeyLink
from portal.integrations.bus import CHANNEL
from tests.factories.gateway import key_entry

CONFIG = GatewayConfig(
    index=0,
    process="gateway@0.host",
    spool_dir=Path("/nowhere"),
    peer_dir=Path("/nowhere"),
    key_requests_per_minute=10**9,
    key_tokens_per_minute=10**12,
    key_concurrency=10**6,
    drain_s=0,
)
_START_US = 1_900_000_000_000_000
_numbers = itertools.count(1)


def key(
    limits: Limits | None = None,
    *,
    project: Limits | None = None,
    organization: Limits | None = None,
    of: str | None = None,
) -> KeyEntry:
    """Return a key of its own, of an organization of its own unless one is named."""
    number = next(_numbers)
    given: dict[str, Any] = {
        "id": number,
        "public_id": ids.public_id("key"),
        "organization": of or ids.public_id("org"),
        "limits": limits or Limits(),
        "organization_limits": organization or Limits(),
    }
    if project is not None:
        given |= {"project": ids.public_id("proj"), "project_limits": project}
    return key_entry(**given)


class Watch:
    """A clock that all processes of the test share and that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Gateways:
    """Some processes' limiters. What one announces the others hear, as by the snapshot's channel."""

    def __init__(self, limiters: list[Limiter], links: list[ValkeyLink], watch: Watch) -> None:
        self.limiters = limiters
        self.links = links
        self.watch = watch

    def __getitem__(self, number: int) -> Limiter:
        return self.limiters[number]

    def pass_time(self, seconds: float) -> None:
        """Move every clock, Valkey's too."""
        self.watch.seconds += seconds
        for link in self.links:
            link.fixed_now += round(seconds * 1_000_000)

    def die(self, number: int) -> None:
        """Let a process say and hear nothing more, as after kill -9."""
        self.limiters[number]._keeping.cancel()
        self.links[number]._beating.cancel()
        self.links[number].is_up = False

    async def enter(self, number: int, entry: KeyEntry) -> Slot:
        return await self.limiters[number].enter(entry, now=self.watch())

    async def rest(self) -> None:
        """Let idle things go back, as the tenth of a second does."""
        self.watch.seconds += 0.3
        for limiter in (*self.limiters, *self.limiters):  # twice: a grant may have been on its way
            limiter.keep()
            await asyncio.gather(*[owner.settled() for owner in limiter._kept])
        self.watch.seconds -= 0.3

    async def admitted(self, number: int, entry: KeyEntry, *, at_most: int, tokens: int = 0) -> list[Slot]:
        """Ask one process again and again until it refuses or has admitted `at_most`."""
        slots: list[Slot] = []
        with suppress(LimitReached):
            while len(slots) < at_most:
                slot = await self.enter(number, entry)
                try:
                    if tokens:
                        await self.limiters[number].reserve(slot, tokens)
                except LimitReached:
                    self.limiters[number].leave(slot, used_tokens=0)
                    raise
                slots.append(slot)
        return slots


@asynccontextmanager
async def gateways(url: str, count: int = 2, *, lease_s: float = 10.0) -> AsyncIterator[Gateways]:
    """Start `count` limiters and stop them."""
    watch = Watch()
    # A busy test machine makes Valkey look slow, which these tests are not about.
    patient = {"lease_s": lease_s, "deadline_s": 5.0, "slow_s": 60.0}
    links = [ValkeyLink(url=url, process=ids.public_id("gateway"), **patient) for _ in range(count)]
    for link in links:
        link.fixed_now = _START_US
    limiters = [Limiter(CONFIG, link, clock=watch) for link in links]
    made = Gateways(limiters, links, watch)
    ear = asyncio.create_task(_hear(url, limiters))
    for limiter in limiters:
        await limiter.start()
    try:
        yield made
    finally:
        ear.cancel()
        await asyncio.gather(ear, return_exceptions=True)
        for limiter in limiters:
            await limiter.stop()


async def _hear(url: str, limiters: list[Limiter]) -> None:
    async with redis.asyncio.Redis.from_url(url, decode_responses=True) as client, client.pubsub() as channel:
        await channel.subscribe(CHANNEL)
        async for message in channel.listen():
            topic, _, subject = str(message["data"]).partition(":")
            if topic == TOPIC:
                for limiter in limiters:
                    limiter.hear(subject)


def shown(slot: Slot, name: str) -> int:
    """Return a header's number, e.g. `remaining-tokens`."""
    return int(dict(slot.headers())[b"x-ratelimit-" + name.encode()])


def with_limits(entry: KeyEntry, **values: int) -> KeyEntry:
    """Return the key as the next snapshot has it."""
    return replace(entry, limits=replace(entry.limits, **values))
