"""Work is queued after the commit, and only then; a broker that is away undoes nothing."""

import base64
import json
import logging
import os
from collections.abc import Iterator

import pytest
import redis
from celery import Celery
from django.conf import settings
from django.db import transaction

from portal.integrations import queue

pytestmark = pytest.mark.django_db(transaction=True)
TASK = "tests.nobody_takes_this"
QUEUE = f"tests-queue-{os.getpid()}"


@pytest.fixture
def own_queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    """The task application on a queue that no other test writes to."""
    application = Celery("tests", broker=settings.REDIS_URL, set_as_current=False)
    application.conf.task_default_queue = QUEUE
    monkeypatch.setattr(queue, "app", application)
    client = redis.Redis.from_url(settings.REDIS_URL, decode_responses=True)
    client.delete(QUEUE)
    yield client
    client.delete(QUEUE)
    client.close()
    application.close()


def test_nothing_is_queued_before_the_commit(own_queue: redis.Redis) -> None:
    with transaction.atomic():
        queue.after_commit(TASK, payout_id=7)
        assert own_queue.llen(QUEUE) == 0

    assert own_queue.llen(QUEUE) == 1
    message = json.loads(str(own_queue.lindex(QUEUE, 0)))
    assert json.loads(base64.b64decode(message["body"]))[1] == {"payout_id": 7}


def test_a_rollback_queues_nothing(own_queue: redis.Redis) -> None:
    with transaction.atomic():
        queue.after_commit(TASK, payout_id=7)
        transaction.set_rollback(True)

    assert own_queue.llen(QUEUE) == 0


def test_a_broker_that_is_away_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    away = Celery("away", broker="redis://127.0.0.1:1/0", set_as_current=False)
    away.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    away.conf.task_publish_retry_policy = settings.CELERY_TASK_PUBLISH_RETRY_POLICY
    monkeypatch.setattr(queue, "app", away)

    with caplog.at_level(logging.WARNING), transaction.atomic():
        queue.after_commit(TASK, payout_id=7)

    assert "queue.broker_unreachable" in caplog.messages
