"""The task runner. Tasks are found in each room's tasks module, the schedule in portal.beat."""

import os

from celery.signals import setup_logging, worker_init

from portal.integrations.queue import app

__all__ = ["app"]

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.production")

_NICE = 5

app.autodiscover_tasks()


@setup_logging.connect(weak=False)
def keep_django_logging(**_: object) -> None:
    """Celery configures no logging of its own where this signal has a receiver: Django's settings stand."""


@worker_init.connect(weak=False)
def yield_to_requests(**_: object) -> None:
    """Let pages, gateways and heartbeats go first where they share a machine with the tasks."""
    os.nice(_NICE)
