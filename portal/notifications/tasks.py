"""Delivery of messages."""

from celery import shared_task

from portal.core import clock
from portal.notifications import services


@shared_task(name="notifications.deliver_message", acks_late=True)
def deliver_message(*, message_id: int, **_: object) -> None:
    """Send one message unless it has left."""
    services.deliver(message_id=message_id, now=clock.now())


@shared_task(name="notifications.deliver_due", acks_late=True)
def deliver_due(**_: object) -> None:
    """Send what waits: refused before, or never queued."""
    services.deliver_due(now=clock.now())


BEAT = {"notifications.deliver_due": 30.0}
