"""Asks Stripe for events that never arrived; Stripe keeps them for thirty days, v1 and v2 in two lists.

A cursor says up to when each list has been read, so that an outage of days is made good, and one of more than thirty
days is told as the gap that it is.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.integrations import stripe
from portal.integrations.stripe_types import Event
from portal.webhooks import handlers
from portal.webhooks.models import CatchUpCursor, EventSource, StripeEvent
from portal.webhooks.services import inbox

# Stripe delivers for three days; what is younger may still come by itself.
OVERLAP = timedelta(days=3)
KEPT = timedelta(days=30)

log = logging.getLogger(__name__)


def catch_up(*, now: datetime) -> int:
    """Store every event that is missing here, of both lists; return how many were. Raises what Payments raises."""
    return sum(_read(source, now) for source in (EventSource.PLATFORM, EventSource.EVENTS))


def _read(source: EventSource, now: datetime) -> int:
    cursor = CatchUpCursor.objects.filter(source=source).first()
    oldest = now - KEPT
    since = max(cursor.read_until - OVERLAP, oldest) if cursor else oldest
    missing = 0
    for event, body in _listed(source, since):
        if not StripeEvent.objects.filter(source=source, event_id=event.id).exists():
            inbox.store(source=source, event=event, body=body, now=now)
            missing += 1
    _move(source, cursor, now)
    if missing:
        log.warning("webhook.caught_up", extra={"source": source.value, "events": missing})
    return missing


def _listed(source: EventSource, since: datetime) -> Iterator[tuple[Event, bytes]]:
    door = stripe.payments()
    if source == EventSource.EVENTS:
        return door.thin_events_since(since=since, types=tuple(handlers.EVENTS))
    return door.events_since(since=since, types=tuple(handlers.PLATFORM))


def _move(source: EventSource, before: CatchUpCursor | None, now: datetime) -> None:
    """Note that the list has been read; what Stripe had thrown away by then is a gap that nobody can close."""
    gap = before is not None and now - before.read_until > KEPT
    with transaction.atomic():
        CatchUpCursor.objects.update_or_create(
            source=source,
            defaults={"read_until": now, **({"has_gap": True, "gap_until": now - KEPT} if gap else {})},
        )
        if gap and before is not None:
            audit.record(
                actor=SYSTEM_ACTOR,
                event="webhook.gap",
                subject=source.value,
                now=now,
                detail={"from": before.read_until.isoformat(), "until": (now - KEPT).isoformat()},
            )
            log.error("webhook.gap", extra={"source": source.value})
