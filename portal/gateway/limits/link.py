"""The way to Valkey, where all processes meet: exchanges in batches, a deadline on each, and a breaker.

It counts as lost when a call fails or hangs, or when several in a row are slow; then nobody waits for it until probes
are quick again.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from portal.gateway import background
from portal.gateway.limits import scripts
from portal.integrations.bus import CHANNEL

log = logging.getLogger(__name__)

TOPIC: Final = "limits"
ALIVE_S: Final = 10
_SLOW_CALLS: Final = 20
_QUICK_PROBES: Final = 2
_PROBE_S: Final = 0.25
_BEAT_S: Final = 1.0
_LAG_S: Final = 0.002


class LinkDown(Exception):
    """Valkey does not answer, or not in time; each process is on its own."""


@dataclass(frozen=True, slots=True)
class RateTerms:
    """What a process says of one rate: its limit (0: none), what it has in hand, gives back, spent and wants."""

    size: int
    hand: int
    back: int
    spent: int
    wanted: Sequence[int]
    ahead: int

    def arguments(self) -> tuple[int | str, ...]:
        """Return them as the script takes them."""
        wanted = ",".join(map(str, self.wanted))
        return (self.size, self.hand, self.back, self.spent, wanted, self.ahead)


@dataclass(frozen=True, slots=True)
class Statement:
    """Where a process stands with an owner, and what it asks for."""

    owner: str
    places: tuple[int, int, int, int]  # limit (0: none), held, wanted, wanted ahead
    requests: RateTerms
    tokens: RateTerms


@dataclass(frozen=True, slots=True)
class Granted:
    """What was granted of one thing, what is left of it for all, and how much of it others hold."""

    units: int
    rest: float
    others: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a statement."""

    places: Granted
    requests: Granted
    tokens: Granted


class ValkeyLink:
    """One object a process. `fixed_now` stands in for Valkey's clock where a test stops time (microseconds)."""

    def __init__(
        self, *, url: str, process: str, lease_s: float = 10.0, deadline_s: float = 0.25, slow_s: float = 0.005
    ) -> None:
        self.lease_s = lease_s
        self._deadline_s = deadline_s
        self._slow_s = slow_s
        self.processes = 1
        self.is_up = True
        self.fixed_now = 0
        self.calls = 0
        self._process = process
        self._client = redis.asyncio.Redis.from_url(
            url, socket_connect_timeout=deadline_s, socket_timeout=2 * deadline_s, retry=Retry(NoBackoff(), 0)
        )
        self._exchange = self._client.register_script(scripts.EXCHANGE)
        self._alive = self._client.register_script(scripts.ALIVE)
        self._batch: list[tuple[Statement, asyncio.Future[Reply]]] = []
        self._flushing: set[asyncio.Task[None]] = set()
        self._beating: asyncio.Task[None] | None = None
        self._slow = 0
        self._lag_s = 0.0

    async def start(self) -> None:
        """Make this process known to the others, and stay so."""
        with suppress(LinkDown):
            await self._beat()
        self._beating = background.start(self._beat_for_ever())

    async def stop(self) -> None:
        """Leave; the others count one process less."""
        await background.stop(self._beating)
        await asyncio.gather(*self._flushing, return_exceptions=True)
        with suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(self._deadline_s):
                await self._client.zrem(scripts.PROCESSES, self._process)
        with suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(self._deadline_s):
                await self._client.aclose()

    async def exchange(self, statement: Statement) -> Reply:
        """Exchange a statement for grants; those of one turn of the loop travel together. Raises LinkDown."""
        if not self.is_up:
            raise LinkDown
        loop = asyncio.get_running_loop()
        if not self._batch:
            loop.call_soon(self._flush_soon)
        future: asyncio.Future[Reply] = loop.create_future()
        self._batch.append((statement, future))
        return await future

    def _flush_soon(self) -> None:
        batch, self._batch = self._batch, []
        task = asyncio.get_running_loop().create_task(self._flush(batch))
        self._flushing.add(task)
        task.add_done_callback(self._flushing.discard)

    async def _flush(self, batch: list[tuple[Statement, "asyncio.Future[Reply]"]]) -> None:
        try:
            replies = await self._timed([statement for statement, _ in batch])
        except LinkDown:
            return
        else:
            for (_, future), reply in zip(batch, replies, strict=True):
                if not future.done():
                    future.set_result(reply)
        finally:  # whatever happened, nobody waits for ever
            for _, future in batch:
                if not future.done():
                    future.set_exception(LinkDown())

    async def _timed(self, statements: list[Statement]) -> list[Reply]:
        began = time.monotonic()
        self.calls += 1
        try:
            async with asyncio.timeout(self._deadline_s):
                found = await self._send(statements)
        except (RedisError, OSError, TimeoutError) as error:
            self._lose(type(error).__name__)
            raise LinkDown from error
        self._judge(time.monotonic() - began)
        return [_reply(row) for row in found]

    async def _send(self, statements: list[Statement]) -> list[Any]:
        try:
            return await self._pipeline(statements)
        except NoScriptError:  # nothing of the batch has happened: the script is the same in all of it
            await self._client.script_load(scripts.EXCHANGE)
            return await self._pipeline(statements)

    async def _pipeline(self, statements: list[Statement]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipeline:
            for statement in statements:
                pipeline.evalsha(self._exchange.sha, 1, scripts.KEY % statement.owner, *self._arguments(statement))
            found: list[Any] = await pipeline.execute()
            return found

    def _arguments(self, statement: Statement) -> tuple[int | str, ...]:
        return (
            self.fixed_now,
            self._process,
            int(self.lease_s * 1_000_000),
            *statement.places,
            *statement.requests.arguments(),
            *statement.tokens.arguments(),
            CHANNEL,
            f"{TOPIC}:{statement.owner}",
        )

    def _judge(self, took_s: float) -> None:
        """Count slow calls in a row, but not those during which our own loop was late."""
        if took_s <= self._slow_s:
            self._slow = 0
        elif took_s - self._lag_s > self._slow_s and self._lag_s < _LAG_S:
            self._slow += 1
            if self._slow >= _SLOW_CALLS:
                self._lose("slow")

    def _lose(self, reason: str) -> None:
        self._slow = 0
        if self.is_up:
            self.is_up = False
            log.warning("limits.alone", extra={"reason": reason, "processes": self.processes})

    async def _beat_for_ever(self) -> None:
        quick = 0
        while True:
            await self._sleep(_BEAT_S if self.is_up else _PROBE_S)
            try:
                took_s = await self._beat()
            except LinkDown:
                quick = 0
                continue
            quick = quick + 1 if took_s <= self._slow_s + self._lag_s else 0
            if not self.is_up and quick >= _QUICK_PROBES:
                self.is_up = True
                log.info("limits.together", extra={"processes": self.processes})

    async def _sleep(self, seconds: float) -> None:
        began = time.monotonic()
        await asyncio.sleep(seconds)
        self._lag_s = max(0.0, time.monotonic() - began - seconds)

    async def _beat(self) -> float:
        """Say that this process lives and learn how many do. Raises LinkDown."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                found = await self._alive(keys=[scripts.PROCESSES], args=[self._process, ALIVE_S])
        except (RedisError, OSError, TimeoutError) as error:
            self._lose(type(error).__name__)
            raise LinkDown from error
        self.processes = max(1, int(found))
        return time.monotonic() - began


def _reply(row: list[Any]) -> Reply:
    places, requests, tokens = (
        Granted(int(row[first]), float(row[first + 1]), int(row[first + 2])) for first in (0, 3, 6)
    )
    return Reply(places, requests, tokens)
