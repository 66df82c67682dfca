"""Periodic work of the metering room."""

from celery import shared_task

from portal.core import clock
from portal.metering.services import hours, partitions


@shared_task(name="metering.make_partitions", acks_late=True)
def make_partitions(**_: object) -> None:
    """Make the coming days' partitions of the usage table."""
    partitions.ensure(today=clock.now().date())


@shared_task(name="metering.add_hours", acks_late=True)
def add_hours(**_: object) -> None:
    """Add the new usage records to the hours they ended in."""
    hours.add_all()


BEAT = {"metering.make_partitions": 3600, "metering.add_hours": 10}
