"""One owner's limits in this process: spent from memory, fetched ahead, returned when idle."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from portal.gateway.contracts import Limits
from portal.gateway.limits.link import LinkDown, RateTerms, Reply, Statement, ValkeyLink
from portal.gateway.limits.shares import Places, Share, beyond_hand

IDLE_S: Final = 0.25
_CALLED_IN_S: Final = 0.03
_CALL_INS: Final = 3
_TURNS: Final = 8
_SHUT_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Need:
    """What a request lacks of one owner: its place (which takes one request as well), or tokens."""

    place: int = 0
    tokens: int = 0


PLACE: Final = Need(place=1)


class Owner:
    """A key, a project or an organization. `kind` is the word for it in messages."""

    __slots__ = (
        "_clock",
        "_link",
        "_lock",
        "_next",
        "_reply",
        "_shut_places_until",
        "_shut_tokens",
        "_waiting",
        "exchanged_at",
        "kind",
        "limits",
        "places",
        "public_id",
        "requests",
        "tokens",
        "touched_at",
    )

    def __init__(
        self, *, kind: str, public_id: str, limits: Limits, link: ValkeyLink, clock: Callable[[], float]
    ) -> None:
        self.kind = kind
        self.public_id = public_id
        self.limits = limits
        self.places = Places(limits.parallel_requests)
        self.requests = Share(limits.requests_per_minute)
        self.tokens = Share(limits.tokens_per_minute)
        self.touched_at = clock()
        self.exchanged_at = -float("inf")
        self._clock = clock
        self._link = link
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        self._reply: Reply | None = None
        self._waiting: dict[object, Need] = {}
        self._shut_places_until = 0.0
        self._shut_tokens = (0.0, 0)

    @property
    def is_limited(self) -> bool:
        """Whether anything is limited at all."""
        return bool(self.places.size or self.requests.size or self.tokens.size)

    @property
    def is_kept(self) -> bool:
        """Whether anything of the owner is in this process, on its way to it, or still to be said of it."""
        is_asking = self._waiting or self._next is not None or self._lock.locked()
        return bool(self.places.running or is_asking) or self.has_idle

    @property
    def has_idle(self) -> bool:
        """Whether there is anything that could be returned, or that the others do not know yet."""
        rates = (self.requests, self.tokens)
        held = any(rate.size and (rate.hand or rate.back or rate.spent or rate.recorded) for rate in rates)
        return held or bool(self.places.size and self.places.free)

    def is_full(self, now: float) -> bool:
        """Whether places are what is missing, and not requests a minute."""
        return self.places.size > 0 and not (self.requests.size and self.requests.remaining(now) < 1)

    def change(self, limits: Limits) -> None:
        """Take new limits at once."""
        self.limits = limits
        self.places.resize(limits.parallel_requests)
        self.requests.resize(limits.requests_per_minute)
        self.tokens.resize(limits.tokens_per_minute)
        self._shut_places_until, self._shut_tokens = 0.0, (0.0, 0)

    def enter(self) -> bool:
        """Take a place and a request from memory; False where they are not there."""
        places, requests = self.places, self.requests
        if places.free < 1 or requests.hand < 1:
            return False
        places.free -= 1
        places.running += 1
        requests.hand -= 1
        if requests.hand < requests.low:
            self.refresh_soon()
        return True

    def take(self, tokens: int) -> bool:
        """Take tokens from memory; False where they are not there."""
        share = self.tokens
        if share.hand < tokens:
            return False
        share.hand -= tokens
        if share.hand < share.low:
            self.refresh_soon()
        return True

    def leave(self) -> None:
        """Give a place back."""
        places = self.places
        places.running -= 1
        places.free += 1
        self._shut_places_until = 0.0
        if places.size and (places.is_scarce or places.running + places.free > places.size):
            places.free = 0
            self.refresh_soon()

    def undo(self, need: Need) -> None:
        """Take back what was taken for a request that another owner refused."""
        if need.tokens:
            self.tokens.give(need.tokens)
        else:
            self.leave()
            self.requests.give(1)

    async def obtain(self, need: Need) -> bool:
        """Take what is needed, asking the others; False where all of it is in use."""
        if need.tokens > self.tokens.size > 0:
            return False
        if not self._link.is_up:
            return self._take_alone(need)
        if self._is_shut(need):
            return False
        ticket = object()
        self._waiting[ticket] = need
        try:
            return await self._ask(need)
        except LinkDown:
            return self._take_alone(need)
        finally:
            del self._waiting[ticket]

    def refresh_soon(self) -> None:
        """Exchange in the background, once."""
        if self._next is None and self._link.is_up:
            self._begin().add_done_callback(_unheard)

    async def look(self) -> None:
        """Learn how the owner stands over all processes; without Valkey it stays what is known here."""
        with suppress(LinkDown):
            await self._refreshed()

    async def settled(self) -> None:
        """Return once the exchange that is under way has ended, however it ended."""
        if self._next is not None:
            await asyncio.wait({self._next})
        async with self._lock:
            return

    def shed(self) -> None:
        """Return all that nobody uses."""
        self.places.shed()
        self.requests.shed()
        self.tokens.shed()
        self.refresh_soon()

    async def _ask(self, need: Need) -> bool:
        call_ins = 0
        for _ in range(_TURNS):
            reply = await self._refreshed()
            if self._take(need):
                return True
            if self._has_room(reply, need):
                continue  # somebody was quicker: there is more
            if not _is_held_elsewhere(reply, need) or call_ins == _CALL_INS:
                break
            call_ins += 1
            await asyncio.sleep(_CALLED_IN_S)
        self._shut(need)
        return False

    def _shut(self, need: Need) -> None:
        """Refuse the like from memory for a moment: a flood of refused requests asks nobody."""
        until = self._clock() + _SHUT_S
        if need.tokens:
            self._shut_tokens = (until, need.tokens)
        else:
            self._shut_places_until = until

    def _is_shut(self, need: Need) -> bool:
        now = self._clock()
        if need.tokens:
            until, units = self._shut_tokens
            return now < until and need.tokens >= units
        return now < self._shut_places_until

    def _has_room(self, reply: Reply, need: Need) -> bool:
        if need.tokens:
            return reply.tokens.rest >= need.tokens
        has_place = not self.places.size or reply.places.rest >= 1
        return has_place and (not self.requests.size or reply.requests.rest >= 1)

    def _take(self, need: Need) -> bool:
        return self.enter() if need.place else self.take(need.tokens)

    def _take_alone(self, need: Need) -> bool:
        processes, now = self._link.processes, self._clock()
        if need.tokens:
            return self.tokens.take_alone(need.tokens, processes, now)
        if self.places.size and not self.places.take_alone(processes):
            return False
        if not self.places.size:
            self.places.running += 1
        if self.requests.size and not self.requests.take_alone(1, processes, now):
            self.places.running -= 1
            self.places.free += 1
            return False
        return True

    async def _refreshed(self) -> Reply:
        """Share one exchange with all who wait; who comes while it runs shares the next one. Raises LinkDown."""
        task = self._next or self._begin()
        await asyncio.wait({task})
        task.result()
        assert self._reply is not None  # noqa: S101  the exchange has just ended well
        return self._reply

    def _begin(self) -> "asyncio.Task[None]":
        self._next = asyncio.get_running_loop().create_task(self._exchange())
        return self._next

    async def _exchange(self) -> None:
        async with self._lock:
            self._next = None
            if not self._link.is_up:
                raise LinkDown
            now = self._clock()
            statement = self._statement(now)
            # What goes back is not ours from here on: were the answer lost, it would otherwise go back twice.
            self.requests.back -= statement.requests.back
            self.tokens.back -= statement.tokens.back
            try:
                reply = await self._link.exchange(statement)
            except LinkDown:
                for share, said in ((self.requests, statement.requests), (self.tokens, statement.tokens)):
                    share.recorded = min(share.recorded, said.hand)
                raise
            self._absorb(statement, reply)

    def _statement(self, now: float) -> Statement:
        wanted = list(self._waiting.values())
        places = sum(need.place for need in wanted)
        requests = beyond_hand([1] * places, self.requests.hand)
        tokens = beyond_hand([need.tokens for need in wanted if need.tokens], self.tokens.hand)
        lacking = max(0, places - int(self.places.free)) if self.places.size else 0
        return Statement(
            owner=self.public_id,
            places=(self.places.size, self.places.held, lacking, self.places.plan(places)),
            requests=_terms(self.requests, requests, now),
            tokens=_terms(self.tokens, tokens, now),
        )

    def _absorb(self, statement: Statement, reply: Reply) -> None:
        now = self._clock()
        self.exchanged_at = now
        self._reply = reply
        if statement.places[0] and self.places.size:
            self.places.free += reply.places.units
            self.places.rest = int(reply.places.rest)
        rates = (
            (self.requests, statement.requests, reply.requests),
            (self.tokens, statement.tokens, reply.tokens),
        )
        for share, said, got in rates:
            share.spent -= said.spent
            if said.size == share.size:
                share.absorb(stated=said.hand, wanted=sum(said.wanted), granted=got.units, level=got.rest, now=now)
            elif share.size:
                share.back += got.units  # granted under a limit that has changed since


def _terms(share: Share, wanted: list[int], now: float) -> RateTerms:
    if not share.size:
        return RateTerms(0, 0, 0, 0, (), 0)
    ahead = share.plan(sum(wanted), now)
    return RateTerms(share.size, int(share.hand), share.back, share.spent, wanted, ahead)


def _is_held_elsewhere(reply: Reply, need: Need) -> bool:
    if need.tokens:
        return reply.tokens.others > 0
    return (reply.places.rest < 1 and reply.places.others > 0) or (
        reply.requests.rest < 1 and reply.requests.others > 0
    )


def _unheard(task: "asyncio.Task[None]") -> None:
    """Let a background exchange fail quietly: who needs an answer asks again, and the link has told the log."""
    if not task.cancelled() and not isinstance(task.exception(), LinkDown | None):
        task.result()
