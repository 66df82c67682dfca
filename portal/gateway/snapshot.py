"""The process's view of keys, prices and nodes: reloaded on either announcement channel, and polled each second.

With neither channel nor a successful poll for ten seconds the view is stale and nothing may be admitted by it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import psycopg
import redis.asyncio
import redis.exceptions
from django.conf import settings
from django.db import Error as DatabaseError

from portal.core import clock
from portal.gateway import background, snapshot_loader
from portal.gateway.contracts import Snapshot
from portal.gateway.snapshot_loader import SnapshotLoader
from portal.gateway.threads import DatabaseThreads
from portal.integrations.bus import CHANNEL

log = logging.getLogger(__name__)

STALE_AFTER_S: Final = 10.0
_POLL_S: Final = 1.0
_ALIVE_TIMEOUT_S: Final = 2.0
_PROMPT_S: Final = 0.7
# So many times the processor time of a load it then rests: a fleet that is joining announces something all the time.
_REST: Final = 9.0
_LONGEST_REST_S: Final = 0.5
_LOAD_TIMEOUT_S: Final = 5.0
_FIRST_LOAD_TIMEOUT_S: Final = 60.0
_FAIL_CLOSED: Final = frozenset({"keys", "organizations"})

Listener = Callable[[str], None]


class SnapshotStore:
    """Keeps `current` current. `subscribe` calls back, on the loop, with the subject of each message of a topic."""

    def __init__(self, process: str, *, direct_url: str | None = None, redis_url: str | None = None) -> None:
        self.current: Snapshot = snapshot_loader.EMPTY
        self._process = process
        self._direct_url = direct_url or settings.DATABASE_DIRECT_URL
        self._redis_url = redis_url or settings.REDIS_URL
        self._loader = SnapshotLoader()
        self._thread = DatabaseThreads(size=1)
        self._listeners: dict[str, list[Listener]] = {}
        self._change_listeners: list[Callable[[Snapshot], None]] = []
        self._suspects: set[str] = set()
        self._loaded: Snapshot = snapshot_loader.EMPTY
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._contact_at = float("-inf")
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Load once, waiting for the database if need be, then follow changes."""
        while not await self._refresh(timeout_s=_FIRST_LOAD_TIMEOUT_S):  # noqa: ASYNC110  no event says it is back
            await asyncio.sleep(_POLL_S)
        works = (self._follow, self._listen_postgres, self._listen_valkey)
        self._tasks = [background.start(work()) for work in works]

    async def stop(self) -> None:
        """End all connections."""
        await background.stop(*self._tasks)
        self._thread.stop()

    def is_stale(self, now: float) -> bool:
        """Tell whether neither channel nor poll has answered for ten seconds, or a fault of ours ended the following.

        `now` is `time.monotonic()`.
        """
        return now - self._contact_at >= STALE_AFTER_S or any(task.done() for task in self._tasks)

    def age_s(self, now: float) -> float:
        """Return how long ago something confirmed the view; `now` is `time.monotonic()`."""
        return max(0.0, now - self._contact_at)

    def subscribe(self, topic: str, listener: Listener) -> None:
        """Call `listener(subject)` for each message of the topic; a message may come twice, by each channel."""
        self._listeners.setdefault(topic, []).append(listener)

    def on_change(self, listener: Callable[[Snapshot], None]) -> None:
        """Call `listener(snapshot)` after each replacement of `current`."""
        self._change_listeners.append(listener)

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_POLL_S):
                    await self._wanted.wait()
            except TimeoutError:
                pass  # nobody announced anything: the second is over, poll
            self._wanted.clear()
            self._urgent.clear()
            refreshing = asyncio.ensure_future(self._refresh(timeout_s=_LOAD_TIMEOUT_S))
            await asyncio.wait({refreshing}, timeout=_PROMPT_S)
            if not refreshing.done():
                self._distrust()
            await refreshing
            await self._rest(min(_REST * self._loader.cost_s, _LONGEST_REST_S))

    async def _rest(self, most_s: float) -> None:
        """Let announcements gather for a moment; what may have to be refused from now on ends it."""
        try:
            async with asyncio.timeout(most_s):
                await self._urgent.wait()
        except TimeoutError:
            pass  # nothing was urgent

    async def _refresh(self, *, timeout_s: float) -> bool:
        suspects = frozenset(self._suspects)
        try:
            loaded = await self._thread.run(self._loader.load, timeout_s=timeout_s, now=clock.now())
        except (DatabaseError, TimeoutError) as error:
            log.warning("snapshot.not_loaded", extra={"reason": type(error).__name__})
            self._distrust()
            return False
        self._contact_at = time.monotonic()
        self._suspects -= suspects
        self._loaded = loaded
        self._replace(loaded)
        return True

    def _distrust(self) -> None:
        """Refuse the keys of which we only know that something about them changed."""
        self._replace(snapshot_loader.distrusting(self._loaded, suspects=self._suspects))

    def _replace(self, snapshot: Snapshot) -> None:
        if snapshot is self.current:
            return
        self.current = snapshot
        for listener in self._change_listeners:
            listener(snapshot)

    def _take(self, message: str) -> None:
        topic, _, subject = message.partition(":")
        if topic in _FAIL_CLOSED and subject:
            self._suspects.add(subject)
            self._urgent.set()
        for listener in self._listeners.get(topic, ()):
            listener(subject)
        if topic not in {"leases", "limits"}:  # neither changes what the snapshot shows
            self._wanted.set()

    async def _listen_postgres(self) -> None:
        while True:
            try:
                await self._hear_postgres()
            except (psycopg.Error, OSError, TimeoutError) as error:
                log.warning("snapshot.listen_lost", extra={"channel": "postgres", "reason": type(error).__name__})
                await asyncio.sleep(_POLL_S)

    async def _hear_postgres(self) -> None:
        async with asyncio.timeout(_ALIVE_TIMEOUT_S):
            connection = await psycopg.AsyncConnection.connect(
                self._direct_url, autocommit=True, application_name=f"poolhouse {self._process}"[:60]
            )
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self._wanted.set()  # what was announced while nobody listened
            while True:
                async for note in connection.notifies(timeout=_POLL_S):
                    self._take(note.payload)
                async with asyncio.timeout(_ALIVE_TIMEOUT_S):
                    await connection.execute("SELECT 1")
                self._contact_at = time.monotonic()

    async def _listen_valkey(self) -> None:
        while True:
            try:
                await self._hear_valkey()
            except (redis.exceptions.RedisError, OSError, TimeoutError) as error:
                log.warning("snapshot.listen_lost", extra={"channel": "valkey", "reason": type(error).__name__})
                await asyncio.sleep(_POLL_S)

    async def _hear_valkey(self) -> None:
        client = redis.asyncio.Redis.from_url(
            self._redis_url, socket_connect_timeout=_ALIVE_TIMEOUT_S, decode_responses=True
        )
        async with client, client.pubsub() as channel:
            async with asyncio.timeout(_ALIVE_TIMEOUT_S):
                await channel.subscribe(CHANNEL)
            self._wanted.set()
            while True:
                async with asyncio.timeout(_ALIVE_TIMEOUT_S):
                    await channel.ping()
                heard = time.monotonic()
                while (left := heard + _POLL_S - time.monotonic()) > 0:
                    message = await channel.get_message(timeout=left)
                    if message is None:
                        continue
                    self._contact_at = time.monotonic()
                    if message["type"] == "message":
                        self._take(message["data"])
