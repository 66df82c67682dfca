"""Corrections of what a provider is owed: proposed by one operator, booked when enough operators agree."""

from django.db import models
from django.db.models import F, Q

from portal.core import ids


def _adjustment_id() -> str:
    return ids.public_id("adj")


class AdjustmentKind(models.TextChoices):
    """Which way the money goes."""

    CLAWBACK = "clawback", "Claw-back: take from the provider"
    CREDIT = "credit", "Credit: give to the provider"


class AdjustmentReason(models.TextChoices):
    """Why, by a stable code."""

    FRAUD = "fraud", "Fraud"
    FAILED_VERIFICATION = "failed_verification", "Work that failed verification"
    OVERPAID = "overpaid", "Paid too much"
    UNDERPAID = "underpaid", "Paid too little"
    GOODWILL = "goodwill", "Goodwill"
    OTHER = "other", "Other"


class AdjustmentState(models.TextChoices):
    """Where it stands."""

    PROPOSED = "proposed"
    BOOKED = "booked"
    WITHDRAWN = "withdrawn"


class ProviderAdjustment(models.Model):
    """One correction. A claw-back goes to `customer`, or to the pool where none is named; its parts are kept."""

    public_id = models.CharField(max_length=40, unique=True, default=_adjustment_id, editable=False)
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=12, choices=AdjustmentKind)
    reason = models.CharField(max_length=24, choices=AdjustmentReason)
    note = models.CharField(max_length=240)
    evidence = models.URLField(max_length=400, blank=True)
    amount_nano = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    customer = models.ForeignKey(
        "accounts.Organization", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    state = models.CharField(max_length=12, choices=AdjustmentState, default=AdjustmentState.PROPOSED)
    proposed_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    proposed_at = models.DateTimeField()
    decided_by = models.ForeignKey("accounts.User", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    decided_at = models.DateTimeField(null=True, blank=True)
    tx = models.OneToOneField(
        "billing.LedgerTx", null=True, blank=True, on_delete=models.PROTECT, related_name="adjustment"
    )
    from_held_nano = models.BigIntegerField(default=0)
    from_pending_nano = models.BigIntegerField(default=0)
    from_reserve_nano = models.BigIntegerField(default=0)
    from_available_nano = models.BigIntegerField(default=0)
    to_debt_nano = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_nano__gt=0), name="adjustment_positive"),
            models.CheckConstraint(condition=Q(state__in=AdjustmentState.values), name="adjustment_state_known"),
            models.CheckConstraint(
                condition=~Q(state="booked") | Q(tx__isnull=False), name="adjustment_booked_names_tx"
            ),
            models.CheckConstraint(
                condition=~Q(state="booked", kind="clawback")
                | Q(
                    amount_nano=F("from_held_nano")
                    + F("from_pending_nano")
                    + F("from_reserve_nano")
                    + F("from_available_nano")
                    + F("to_debt_nano")
                ),
                name="adjustment_parts_add_up",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
