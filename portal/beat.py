"""The schedule: every room's BEAT, kept in Valkey, run by whichever beat holds the lock.

A second beat waits; when the first one dies its lock ends and the second goes on where it stopped.
"""

import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module, util
from typing import Any

import redis
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule
from django.apps import apps
from django.conf import settings

LOCK = "poolhouse:beat:lock"
LAST_RUNS = "poolhouse:beat:last_runs"
LOCK_S = 15

_RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('expire', KEYS[1], ARGV[2]) else return 0 end"
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

log = logging.getLogger(__name__)


def room_schedules() -> Iterator[tuple[str, float]]:
    """Yield (task name, seconds) of every installed room's `tasks.BEAT`."""
    for config in apps.get_app_configs():
        module = f"{config.name}.tasks"
        if config.name.startswith("portal.") and util.find_spec(module) is not None:
            beat: Mapping[str, float] = getattr(import_module(module), "BEAT", {})
            yield from beat.items()


class SharedScheduler(Scheduler):
    """Beat's scheduler with its memory and its lock in Valkey."""

    def __init__(self, app: Celery, **options: Any) -> None:
        self.token = secrets.token_hex(8)
        self.client = redis.Redis.from_url(
            settings.REDIS_URL, decode_responses=True, socket_connect_timeout=2, socket_timeout=5
        )
        self.is_leader = False
        super().__init__(app=app, **options)

    def setup_schedule(self) -> None:
        """Compose the schedule from the rooms."""
        for name, seconds in room_schedules():
            self.add_entry(name, seconds)

    def add_entry(self, task: str, seconds: float) -> None:
        """Send `task` each `seconds`; a message that nobody took within two intervals is worth nothing any more."""
        options = {"expires": max(2.0, seconds * 2)}
        self.schedule[task] = self.Entry(
            name=task, task=task, schedule=schedule(seconds), options=options, app=self.app
        )

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due while this process holds the lock; return the seconds to wait."""
        try:
            if self._lead():
                return float(super().tick(*args, **kwargs))
        except redis.exceptions.RedisError as error:
            log.warning("beat.broker_unreachable", extra={"reason": type(error).__name__})
            self.is_leader = False
        return 1.0

    def apply_async(self, entry: ScheduleEntry, *args: Any, **kwargs: Any) -> Any:
        """Send the task and remember when."""
        sent = super().apply_async(entry, *args, **kwargs)
        self.client.hset(LAST_RUNS, str(entry.name), str(time.time()))
        return sent

    def close(self) -> None:
        """Give the lock away."""
        if self.is_leader:
            try:
                self.client.eval(_RELEASE, 1, LOCK, self.token)
            except redis.exceptions.RedisError as error:
                log.warning("beat.lock_not_released", extra={"reason": type(error).__name__})
        super().close()

    def _lead(self) -> bool:
        if self.is_leader and self.client.eval(_RENEW, 1, LOCK, self.token, LOCK_S):
            return True
        self.is_leader = bool(self.client.set(LOCK, self.token, nx=True, ex=LOCK_S))
        if self.is_leader:
            self._recall()
            log.info("beat.leads", extra={"entries": len(self.schedule)})
        return self.is_leader

    def _recall(self) -> None:
        """Take over when each entry last ran, whoever ran it; an entry that never ran is due at once."""
        last_runs = {str(name): float(at) for name, at in self.client.hgetall(LAST_RUNS).items()}
        for entry in self.schedule.values():
            entry.last_run_at = datetime.fromtimestamp(last_runs.get(str(entry.name), 0.0), UTC)
        self._heap = None
