"""Stripe's own books, line by line, and what each line belongs to here."""

from django.db import models
from django.db.models import Q


class StripeMovement(models.Model):
    """One balance transaction of the platform; its figures never change.

    `source_type` and `source_id` name the ledger's source that it belongs to; both are empty while nobody knows.
    `tx` is set where the line itself was booked: a withdrawal, a deposit, a fee, an adjustment.
    """

    stripe_id = models.CharField(max_length=64, unique=True)
    type = models.CharField(max_length=40)
    amount_minor = models.BigIntegerField()
    fee_minor = models.BigIntegerField()
    net_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    source = models.CharField(max_length=64, blank=True)
    related = models.JSONField(default=list)
    moved_at = models.DateTimeField(db_index=True)
    seen_at = models.DateTimeField()
    source_type = models.CharField(max_length=32, blank=True)
    source_id = models.CharField(max_length=96, blank=True, db_index=True)
    tx = models.OneToOneField(
        "billing.LedgerTx", null=True, blank=True, on_delete=models.PROTECT, related_name="stripe_movement"
    )

    class Meta:
        indexes = [models.Index(fields=["moved_at", "id"], condition=Q(source_id=""), name="stripe_movement_unmatched")]
        constraints = [
            models.CheckConstraint(
                condition=Q(net_minor=models.F("amount_minor") - models.F("fee_minor")), name="stripe_movement_adds_up"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.stripe_id}"
