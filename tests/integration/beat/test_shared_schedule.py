"""Two beats, one schedule: each task is sent once an interval, and the second beat takes over from the first."""

import os
from collections.abc import Iterator

import pytest
import redis
from celery import Celery
from django.conf import settings

from portal import beat
from portal.beat import LAST_RUNS, LOCK, SharedScheduler


class TickingScheduler(SharedScheduler):
    """The scheduler with one entry of its own in place of the rooms' entries."""

    def setup_schedule(self) -> None:
        self.add_entry("tests.tick", 3600.0)


@pytest.fixture
def broker() -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(settings.REDIS_URL)
    client.delete(LOCK, LAST_RUNS)
    yield client
    client.delete(LOCK, LAST_RUNS, queue_name())
    client.close()


def queue_name() -> str:
    return f"tests-beat-{os.getpid()}"


def new_beat() -> SharedScheduler:
    app = Celery("tests", broker=settings.REDIS_URL, set_as_current=False)
    app.conf.task_default_queue = queue_name()
    return TickingScheduler(app=app)


def run(scheduler: SharedScheduler) -> None:
    for _ in range(3):
        scheduler.tick()


def test_a_second_beat_sends_nothing(broker: redis.Redis) -> None:
    first, second = new_beat(), new_beat()

    run(first)
    run(second)

    assert broker.llen(queue_name()) == 1


def test_the_second_beat_goes_on_where_the_first_one_stopped(broker: redis.Redis) -> None:
    first, second = new_beat(), new_beat()
    run(first)

    first.close()
    run(second)

    assert second.is_leader
    assert broker.llen(queue_name()) == 1, "what the first one sent is not due again"


def test_a_beat_that_lost_its_lock_stops_sending(broker: redis.Redis) -> None:
    first, second = new_beat(), new_beat()
    run(first)
    broker.delete(LOCK, LAST_RUNS)

    run(second)
    run(first)

    assert not first.is_leader
    assert broker.llen(queue_name()) == 2


def test_every_entry_of_the_rooms_names_a_task_and_an_interval() -> None:
    for name, seconds in beat.room_schedules():
        assert name.count(".") == 1
        assert seconds > 0
