"""After an old backup was restored: payments rest, and what Stripe has done since is taken over, object by object."""

from django.db import models
from django.db.models import Q

from portal.core import ids


def _recovery_id() -> str:
    return ids.public_id("recov")


class Recovery(models.Model):
    """One recovery; while it is open no money leaves. `known_until` is the last moment that the backup knows."""

    public_id = models.CharField(max_length=40, unique=True, default=_recovery_id, editable=False)
    scope = models.CharField(max_length=8, default="money", editable=False)
    known_until = models.DateTimeField()
    started_at = models.DateTimeField()
    started_by = models.CharField(max_length=64)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope"], condition=Q(ended_at=None), name="recovery_one_open"),
        ]

    def __str__(self) -> str:
        return self.public_id


class FoundKind(models.TextChoices):
    """What of Stripe's objects a recovery looks at."""

    TOPUP = "topup"
    TRANSFER = "transfer"
    REFUND = "refund"
    DISPUTE = "dispute"


class FoundState(models.TextChoices):
    """`frozen`: its money is set aside until it is taken over; `unexplained`: nothing here says what it was.

    `released`: an operator has dealt with what was unexplained, and what was set aside went back to where it came from.
    """

    FROZEN = "frozen"
    IMPORTED = "imported"
    UNEXPLAINED = "unexplained"
    RELEASED = "released"


class FoundObject(models.Model):
    """One of Stripe's objects that the restored books did not know. `owner` is a public id, or what Stripe has of one.

    `frozen_nano` is what was set aside for it by `freeze_tx`; reversing that releases it.
    """

    recovery = models.ForeignKey(Recovery, on_delete=models.PROTECT, related_name="found")
    kind = models.CharField(max_length=8, choices=FoundKind)
    stripe_id = models.CharField(max_length=96, unique=True)
    reference = models.CharField(max_length=40, blank=True)
    owner = models.CharField(max_length=40, blank=True)
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    made_at = models.DateTimeField(null=True, blank=True)
    frozen_nano = models.BigIntegerField(default=0)
    freeze_tx = models.OneToOneField(
        "billing.LedgerTx", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    state = models.CharField(max_length=12, choices=FoundState, default=FoundState.FROZEN)
    why = models.CharField(max_length=240, blank=True)
    found_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gte=0, frozen_nano__gte=0), name="found_amounts_sound"),
            models.CheckConstraint(
                condition=Q(frozen_nano=0, freeze_tx=None) | Q(frozen_nano__gt=0, freeze_tx__isnull=False),
                name="found_frozen_by_a_tx",
            ),
            models.CheckConstraint(condition=Q(state__in=FoundState.values), name="found_state_known"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.stripe_id}: {self.state}"
