"""Handles stored events: safe to run twice, tried again for three days, then given to people."""

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.core.errors import DomainError
from portal.webhooks.handlers import BY_SOURCE, NotBooked
from portal.webhooks.models import EventState, StripeEvent

KEPT_TRYING = timedelta(days=3)
_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(hours=1)
_DOUBLINGS = 10
_BATCH = 200

log = logging.getLogger(__name__)


def handle(*, event_id: int, now: datetime) -> StripeEvent:
    """Handle one event if it is due, and return it with what became of it."""
    event = _claim(event_id, now)
    if event is None:
        return StripeEvent.objects.get(pk=event_id)
    handler = BY_SOURCE[event.source].get(event.type)
    if handler is None:
        return _end(event, EventState.IGNORED, now)
    try:
        handler(event, now)
    except NotBooked as error:
        return _give_up(event, error, now)
    except DomainError as error:
        return _later(event, error, now)
    return _end(event, EventState.DONE, now)


def handle_due(*, now: datetime) -> int:
    """Handle every event whose next try has come; return how many are finished now."""
    rows = StripeEvent.objects.filter(state=EventState.PENDING, next_try_at__lte=now).order_by("next_try_at", "pk")
    ids = list(rows.values_list("pk", flat=True)[:_BATCH])
    return sum(handle(event_id=event_id, now=now).state != EventState.PENDING for event_id in ids)


def _claim(event_id: int, now: datetime) -> StripeEvent | None:
    """Take the event by a conditional UPDATE that already sets its next try: a crash costs one pause, not the event."""
    event = StripeEvent.objects.get(pk=event_id)
    taken = StripeEvent.objects.filter(pk=event_id, state=EventState.PENDING, next_try_at__lte=now).update(
        tries=F("tries") + 1, next_try_at=now + _pause(event.tries)
    )
    if not taken:
        return None
    event.refresh_from_db()
    return event


def _pause(tries: int) -> timedelta:
    doublings: int = min(tries, _DOUBLINGS)
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * (1 << doublings))


def _end(event: StripeEvent, state: EventState, now: datetime) -> StripeEvent:
    event.state, event.handled_at, event.error = state, now, ""
    event.save(update_fields=["state", "handled_at", "error"])
    return event


def _later(event: StripeEvent, error: DomainError, now: datetime) -> StripeEvent:
    if now - event.received_at >= KEPT_TRYING:
        return _give_up(event, error, now)
    event.error = f"{error.code}: {error.message}"
    event.save(update_fields=["error"])
    log.warning("webhook.postponed", extra={"event": event.event_id, "type": event.type, "code": error.code})
    return event


def _give_up(event: StripeEvent, error: DomainError, now: datetime) -> StripeEvent:
    event.state, event.handled_at, event.error = EventState.FAILED, now, f"{error.code}: {error.message}"
    with transaction.atomic():
        event.save(update_fields=["state", "handled_at", "error"])
        audit.record(
            actor=SYSTEM_ACTOR,
            event="webhook.failed",
            subject=event.event_id,
            now=now,
            detail={"type": event.type, "error": event.error, "object": event.object_id},
        )
    log.error("webhook.failed", extra={"event": event.event_id, "type": event.type, "code": error.code})
    return event
