"""Takes events in: verify the raw bytes, store them, answer; the work is a worker's."""

from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import transaction

from portal.core.errors import InvalidValue
from portal.integrations import queue, stripe, stripe_webhooks
from portal.integrations.stripe_types import Event
from portal.webhooks.models import EventSource, StripeEvent

LARGEST_BYTES = 1_000_000


class EventTooLarge(InvalidValue):
    """The body is larger than any event."""

    code: ClassVar[str] = "event_too_large"


class WrongEndpoint(InvalidValue):
    """A connected account's event came to the platform's endpoint, or the other way round."""

    code: ClassVar[str] = "wrong_endpoint"


class WrongMode(InvalidValue):
    """A test event came to a live pool, or the other way round."""

    code: ClassVar[str] = "wrong_mode"


def receive(*, source: EventSource, body: bytes, signature: str, now: datetime) -> StripeEvent:
    """Store a verified event once and queue its handling.

    Raises EventTooLarge, SignatureInvalid, WrongEndpoint, WrongMode.
    """
    if len(body) > LARGEST_BYTES:
        raise EventTooLarge(f"an event has at most {LARGEST_BYTES} bytes")
    event = stripe_webhooks.verify(body=body, signature=signature, secret=_secret(source))
    _require_place(source, event)
    return store(source=source, event=event, body=body, now=now)


def store(*, source: EventSource, event: Event, body: bytes, now: datetime) -> StripeEvent:
    """Keep the event; the same one again is the same row."""
    with transaction.atomic():
        row, is_new = StripeEvent.objects.get_or_create(
            source=source,
            event_id=event.id,
            defaults={
                "type": event.type,
                "account": event.account,
                "object_id": event.object_id,
                "is_live": event.is_live,
                "body": body,
                "received_at": now,
                "next_try_at": now,
            },
        )
        if is_new:
            queue.after_commit("webhooks.handle_event", event_id=row.pk)
    return row


def _secret(source: EventSource) -> str:
    secrets = {
        EventSource.PLATFORM: settings.STRIPE_WEBHOOK_SECRET,
        EventSource.CONNECT: settings.STRIPE_CONNECT_WEBHOOK_SECRET,
        EventSource.EVENTS: settings.STRIPE_EVENTS_SECRET,
    }
    return str(secrets[source])


def _require_place(source: EventSource, event: Event) -> None:
    if source == EventSource.PLATFORM and event.account:
        raise WrongEndpoint("an event of a connected account belongs to /webhooks/stripe/connect/")
    if source == EventSource.CONNECT and not event.account:
        raise WrongEndpoint("an event of the platform belongs to /webhooks/stripe/")
    if event.is_live != stripe.is_live_mode():
        raise WrongMode("the event's livemode is not this pool's")
