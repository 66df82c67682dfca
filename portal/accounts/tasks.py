"""Periodic work of the accounts room."""

from celery import shared_task

from portal.accounts.services import key_alerts
from portal.core import clock


@shared_task(name="accounts.watch_sightings", acks_late=True)
def watch_sightings(**_: object) -> None:
    """Judge from where keys are used, and tell their owners what is new."""
    key_alerts.watch_sightings(now=clock.now())


BEAT = {"accounts.watch_sightings": 60}
