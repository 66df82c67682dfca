"""Periodic work of the metering room."""

from celery import shared_task

from portal.core import clock
from portal.metering.services import partitions


@shared_task(name="metering.make_partitions", acks_late=True)
def make_partitions(**_: object) -> None:
    """Make the coming days' partitions of the usage table."""
    partitions.ensure(today=clock.now().date())


BEAT = {"metering.make_partitions": 3600}
