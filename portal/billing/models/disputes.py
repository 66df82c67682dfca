"""Payments that a cardholder or a card network contests."""

from django.db import models
from django.db.models import Q


class Dispute(models.Model):
    """One dispute of a purchase's charge, as Stripe has it. What it moved is in its movements."""

    stripe_dispute = models.CharField(max_length=64, unique=True)
    topup = models.ForeignKey("billing.TopUp", on_delete=models.PROTECT, related_name="disputes")
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    charge = models.CharField(max_length=64)
    status = models.CharField(max_length=32)
    reason = models.CharField(max_length=48)
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    evidence_due_at = models.DateTimeField(null=True, blank=True)
    evidence = models.JSONField(null=True, blank=True)
    evidence_sent_at = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    lost_at = models.DateTimeField(null=True, blank=True)
    written_off_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["organization", "-opened_at"], name="dispute_of_organization"),
            models.Index(fields=["lost_at"], condition=Q(written_off_at=None), name="dispute_to_write_off"),
        ]

    def __str__(self) -> str:
        return self.stripe_dispute


class DisputeMovement(models.Model):
    """One of Stripe's balance transactions of a dispute, booked once.

    `amount_minor` is negative where money went out; `debt_nano` is the part that the customer no longer had.
    """

    dispute = models.ForeignKey(Dispute, on_delete=models.PROTECT, related_name="movements")
    movement = models.CharField(max_length=64, unique=True)
    amount_minor = models.BigIntegerField()
    fee_minor = models.BigIntegerField()
    debt_nano = models.BigIntegerField(default=0)
    moved_at = models.DateTimeField()
    booked_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.movement


class WarningState(models.TextChoices):
    """What the operator decided about a fraud warning."""

    OPEN = "open"
    REFUNDED = "refunded"
    DISMISSED = "dismissed"


class FraudWarning(models.Model):
    """A card network's warning that a purchase was probably made with a stolen card; often a dispute follows."""

    stripe_warning = models.CharField(max_length=64, unique=True)
    topup = models.ForeignKey("billing.TopUp", on_delete=models.PROTECT, related_name="fraud_warnings")
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    charge = models.CharField(max_length=64)
    type = models.CharField(max_length=64)
    is_actionable = models.BooleanField()
    state = models.CharField(max_length=10, choices=WarningState, default=WarningState.OPEN)
    warned_at = models.DateTimeField()
    noted_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(state__in=WarningState.values), name="warning_state_known")]

    def __str__(self) -> str:
        return self.stripe_warning
