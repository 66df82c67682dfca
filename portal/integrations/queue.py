"""The one door to the task broker: by name, after commit. The worker in portal.celery runs the same application."""

import logging

from celery import Celery
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)

app = Celery("poolhouse")
app.config_from_object("django.conf:settings", namespace="CELERY")


def after_commit(task: str, **arguments: int | str) -> None:
    """Queue `task` with `arguments` once the current transaction has committed.

    What has been committed stands even where the broker cannot be reached: the periodic tasks find the work again.
    """
    transaction.on_commit(lambda: _send(task, arguments))


def _send(task: str, arguments: dict[str, int | str]) -> None:
    try:
        app.send_task(task, kwargs=arguments)
    except OperationalError as error:
        log.warning("queue.broker_unreachable", extra={"task": task, "reason": str(error)})
