"""Asks Stripe for events that never arrived; Stripe keeps them for thirty days."""

from datetime import datetime, timedelta
from itertools import chain

from portal.integrations import stripe
from portal.webhooks import handlers
from portal.webhooks.models import EventSource, StripeEvent
from portal.webhooks.services import inbox

LOOK_BACK = timedelta(days=3)


def catch_up(*, now: datetime) -> int:
    """Store every event of the last days that is missing here; return how many were."""
    door, since = stripe.payments(), now - LOOK_BACK
    snapshots = door.events_since(since=since, types=tuple(handlers.PLATFORM))
    thin = door.thin_events_since(since=since, types=tuple(handlers.EVENTS))
    missing = 0
    for event, body in chain(snapshots, thin):
        source = EventSource.EVENTS if event.type.startswith("v2.") else EventSource.PLATFORM
        if not StripeEvent.objects.filter(source=source, event_id=event.id).exists():
            inbox.store(source=source, event=event, body=body, now=now)
            missing += 1
    return missing
