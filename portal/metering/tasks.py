"""Periodic work of the metering room."""

from celery import shared_task

from portal.core import clock
from portal.metering.selectors import demand as demands
from portal.metering.services import demand, hours, partitions
from portal.nodes.services import placement


@shared_task(name="metering.make_partitions", acks_late=True)
def make_partitions(**_: object) -> None:
    """Make the coming days' partitions of the usage table."""
    partitions.ensure(today=clock.now().date())


@shared_task(name="metering.add_hours", acks_late=True)
def add_hours(**_: object) -> None:
    """Add the new usage records to the hours they ended in."""
    hours.add_all()


@shared_task(name="metering.place_models", acks_late=True)
def place_models(**_: object) -> None:
    """Decide one round of placement by what customers ask for; what a lower room needs is handed down here."""
    now = clock.now()
    placement.run_round(demand=demands.by_model(now=now), now=now)


@shared_task(name="metering.forget_turned_away", acks_late=True)
def forget_turned_away(**_: object) -> None:
    """Delete old sums of requests that found no node."""
    demand.forget_old(now=clock.now())


BEAT = {
    "metering.make_partitions": 3600,
    "metering.add_hours": 10,
    "metering.place_models": 60,
    "metering.forget_turned_away": 3600,
}
