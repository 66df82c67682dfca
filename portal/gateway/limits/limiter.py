"""Admits requests within the limits of their key, its project and its organization, over all processes together."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from portal.gateway import background
from portal.gateway.config import GatewayConfig
from portal.gateway.contracts import KeyEntry, Limits
from portal.gateway.errors import Headers
from portal.gateway.limits import answers
from portal.gateway.limits.link import ValkeyLink
from portal.gateway.limits.owner import IDLE_S, PLACE, Need, Owner

_TICK_S: Final = 0.1
_FORGET_AFTER_S: Final = 300.0
_FORGET_ABOVE: Final = 10_000


class Slot:
    """One admitted request's place; given back exactly once."""

    __slots__ = ("_clock", "is_open", "owners", "tokens")

    def __init__(self, owners: tuple[Owner, ...] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self.owners = owners
        self.tokens = 0
        self.is_open = True
        self._clock = clock

    def headers(self) -> Headers:
        """Return x-ratelimit-* as they are now."""
        return answers.headers(self.owners, self._clock())


class Limiter:
    """One object a process. The usual request is arithmetic in memory; Valkey is asked for the next slice ahead."""

    def __init__(self, config: GatewayConfig, link: ValkeyLink, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool_limits = Limits(
            requests_per_minute=config.key_requests_per_minute,
            tokens_per_minute=config.key_tokens_per_minute,
            parallel_requests=config.key_concurrency,
        )
        self._link = link
        self._clock = clock
        self._owners: dict[str, Owner] = {}
        self._by_key: dict[int, tuple[KeyEntry, tuple[Owner, ...]]] = {}
        self._kept: set[Owner] = set()
        self._forget_above = _FORGET_ABOVE
        self.running = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Meet the other processes, and begin to return what lies idle."""
        await self._link.start()
        self._keeping = background.start(self._keep_for_ever())

    async def stop(self) -> None:
        """Return everything and leave."""
        await background.stop(self._keeping)
        for owner in self._kept:
            owner.shed()
        await asyncio.gather(*[owner.settled() for owner in self._kept])
        await self._link.stop()

    async def until_idle(self) -> None:
        """Return once no admitted request runs; the caller sets the deadline."""
        await self._is_idle.wait()

    async def standing(self, key: KeyEntry) -> tuple[Owner, ...]:
        """Return the owners whose limits bind the key, as they stand now over all processes where these answer."""
        owners = self._owners_of(key)
        self._kept.update(owners)
        await asyncio.gather(*[owner.look() for owner in owners])
        return owners

    async def enter(self, key: KeyEntry, *, now: float) -> Slot:
        """Take one request's place with each owner. Raises LimitReached; then nothing is taken."""
        owners = self._owners_of(key)
        for number, owner in enumerate(owners):
            if not owner.enter() and not await self._obtain(owner, PLACE, owners[:number]):
                raise self._refusal(owner, owners)
            owner.touched_at = now
        self.running += 1
        self._is_idle.clear()
        return Slot(owners, self._clock)

    async def reserve(self, slot: Slot, tokens: int) -> None:
        """Take the bound's tokens from each owner. Raises LimitReached; then none are taken."""
        for number, owner in enumerate(slot.owners):
            if not owner.take(tokens) and not await self._obtain(owner, Need(tokens=tokens), slot.owners[:number]):
                raise answers.too_many_tokens(owner, tokens, slot.owners, self._clock())
        slot.tokens = tokens

    def leave(self, slot: Slot, *, used_tokens: int) -> None:
        """Give the places back, and the tokens that were not used. Safe to call twice."""
        if not slot.is_open:
            return
        slot.is_open = False
        unused = slot.tokens - used_tokens
        for owner in slot.owners:
            owner.leave()
            if unused > 0:
                owner.tokens.give(unused)
            elif unused and owner.tokens.size:
                owner.tokens.spent -= unused
        self.running -= 1
        if not self.running:
            self._is_idle.set()

    def hear(self, public_id: str) -> None:
        """Another process is short of what this owner has here: return what nobody uses."""
        owner = self._owners.get(public_id)
        if owner is not None and owner in self._kept:
            owner.shed()

    def _owners_of(self, key: KeyEntry) -> tuple[Owner, ...]:
        found = self._by_key.get(key.id)
        return found[1] if found is not None and found[0] is key else self._resolve(key)

    async def _obtain(self, owner: Owner, need: Need, before: tuple[Owner, ...]) -> bool:
        """Ask for what memory does not have; where it is refused, or nobody waits any more, undo it with the others."""
        self._kept.add(owner)
        has_it = False
        try:
            has_it = await owner.obtain(need)
        finally:
            if not has_it:
                for other in before:
                    other.undo(need)
        return has_it

    def _refusal(self, owner: Owner, owners: tuple[Owner, ...]) -> answers.LimitReached:
        now = self._clock()
        if owner.is_full(now):
            return answers.too_many_parallel(owner, owners, now)
        return answers.too_many_requests(owner, owners, now)

    def _resolve(self, key: KeyEntry) -> tuple[Owner, ...]:
        """Find the owners whose limits bind the key, with their limits as this snapshot has them."""
        if len(self._by_key) >= self._forget_above:
            self._forget()
        owners = [self._owner("key", key.public_id, self._of_key(key.limits))]
        if key.project is not None:
            owners.append(self._owner("project", key.project, key.project_limits))
        owners.append(self._owner("organization", key.organization, key.organization_limits))
        bound = tuple(owner for owner in owners if owner.is_limited)
        self._by_key[key.id] = (key, bound)
        return bound

    def _of_key(self, limits: Limits) -> Limits:
        pool = self._pool_limits
        return Limits(
            requests_per_minute=limits.requests_per_minute or pool.requests_per_minute,
            tokens_per_minute=limits.tokens_per_minute or pool.tokens_per_minute,
            parallel_requests=limits.parallel_requests or pool.parallel_requests,
        )

    def _owner(self, kind: str, public_id: str, limits: Limits) -> Owner:
        owner = self._owners.get(public_id)
        if owner is None:
            owner = Owner(kind=kind, public_id=public_id, limits=limits, link=self._link, clock=self._clock)
            self._owners[public_id] = owner
        elif owner.limits != limits:
            owner.change(limits)
        return owner

    def _forget(self) -> None:
        before = self._clock() - _FORGET_AFTER_S
        for public_id, owner in list(self._owners.items()):
            if owner not in self._kept and owner.touched_at < before:
                del self._owners[public_id]
        self._by_key = {
            key_id: found
            for key_id, found in self._by_key.items()
            if all(self._owners.get(owner.public_id) is owner for owner in found[1])
        }
        self._forget_above = max(_FORGET_ABOVE, 2 * len(self._by_key))

    async def _keep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.keep()

    def keep(self) -> None:
        """Return what lies idle and renew what is held; called ten times a second."""
        if not self._link.is_up:
            return
        now = self._clock()
        for owner in list(self._kept):
            if not owner.is_kept:
                self._kept.discard(owner)
            elif now - owner.touched_at >= IDLE_S and owner.has_idle:
                owner.shed()
            elif now - owner.exchanged_at >= self._link.lease_s / 3:
                owner.refresh_soon()
