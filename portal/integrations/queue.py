"""The one door to the task broker: by name, after commit."""

from celery import current_app
from django.db import transaction


def after_commit(task: str, **arguments: int | str) -> None:
    """Queue `task` with `arguments` once the current transaction has committed."""
    transaction.on_commit(lambda: current_app.send_task(task, kwargs=arguments))
