"""The task runner. Tasks are found in each room's tasks module; the schedule is in settings."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.production")

app = Celery("poolhouse")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
