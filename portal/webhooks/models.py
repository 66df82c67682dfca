"""The inbox: every Stripe event as it came, stored before it is handled."""

from django.db import models
from django.db.models import Q


class EventSource(models.TextChoices):
    """Which endpoint, and so which secret, an event came through."""

    PLATFORM = "platform"
    CONNECT = "connect"
    EVENTS = "events"


class EventState(models.TextChoices):
    """What became of the event."""

    PENDING = "pending"
    DONE = "done"
    IGNORED = "ignored"
    FAILED = "failed"


class StripeEvent(models.Model):
    """One event. `body` is the raw, verified payload; handling fetches the object and never trusts the copy in it."""

    source = models.CharField(max_length=10, choices=EventSource)
    event_id = models.CharField(max_length=96)
    type = models.CharField(max_length=96)
    account = models.CharField(max_length=64, blank=True)
    object_id = models.CharField(max_length=96, blank=True)
    is_live = models.BooleanField()
    body = models.BinaryField()
    received_at = models.DateTimeField()
    state = models.CharField(max_length=8, choices=EventState, default=EventState.PENDING)
    tries = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField()
    handled_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "event_id"], name="stripe_event_once"),
            models.CheckConstraint(condition=Q(state__in=EventState.values), name="stripe_event_state_known"),
        ]
        indexes = [models.Index(fields=["state", "next_try_at"], name="stripe_event_due")]

    def __str__(self) -> str:
        return f"{self.type} {self.event_id}"


class CatchUpCursor(models.Model):
    """Up to when one of Stripe's lists of events was read; `gap_until`: what was before and not read is lost there."""

    source = models.CharField(max_length=10, choices=EventSource, unique=True)
    read_until = models.DateTimeField()
    has_gap = models.BooleanField(default=False)
    gap_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(has_gap=False) | Q(gap_until__isnull=False), name="catch_up_gap_named"),
        ]

    def __str__(self) -> str:
        return f"{self.source} until {self.read_until}"
