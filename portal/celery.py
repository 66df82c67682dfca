"""The task runner. Tasks are found in each room's tasks module, the schedule in portal.beat."""

import os

from celery.signals import setup_logging

from portal.integrations.queue import app

__all__ = ["app"]

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.production")

app.autodiscover_tasks()


@setup_logging.connect(weak=False)
def keep_django_logging(**_: object) -> None:
    """Celery configures no logging of its own where this signal has a receiver: Django's settings stand."""
