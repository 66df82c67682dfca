"""Work of the webhooks room."""

import logging

from celery import shared_task

from portal.core import clock
from portal.integrations.stripe_errors import PaymentError
from portal.webhooks.services import catch_up as catching_up
from portal.webhooks.services import dispatch

log = logging.getLogger(__name__)


@shared_task(name="webhooks.handle_event", acks_late=True)
def handle_event(*, event_id: int, **_: object) -> None:
    """Handle one stored event."""
    dispatch.handle(event_id=event_id, now=clock.now())


@shared_task(name="webhooks.handle_due", acks_late=True)
def handle_due(**_: object) -> None:
    """Handle the events whose next try has come."""
    dispatch.handle_due(now=clock.now())


@shared_task(name="webhooks.catch_up", acks_late=True)
def catch_up(**_: object) -> None:
    """Fetch events that never arrived."""
    try:
        catching_up.catch_up(now=clock.now())
    except PaymentError as error:
        log.warning("webhook.catch_up_failed", extra={"code": error.code})


BEAT = {"webhooks.handle_due": 10, "webhooks.catch_up": 3600}
