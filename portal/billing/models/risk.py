"""How far a customer's payments are trusted, why its spending is stopped, and how often it tried to buy."""

from django.db import models
from django.db.models import Q


class StopKind(models.TextChoices):
    """Why an organization may not spend."""

    DISPUTE = "dispute"
    FRAUD_WARNING = "fraud_warning"
    CARDS = "cards"
    KNOWN_CARD = "known_card"
    OPERATOR = "operator"


class SpendingStop(models.Model):
    """One reason why an organization may not spend; it may again once every stop is lifted."""

    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=16, choices=StopKind)
    subject = models.CharField(max_length=96)
    note = models.CharField(max_length=240, blank=True)
    created_at = models.DateTimeField()
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.CharField(max_length=64, blank=True)
    lift_note = models.CharField(max_length=240, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organization", "kind", "subject"], name="spending_stop_once"),
            models.CheckConstraint(condition=Q(kind__in=StopKind.values), name="spending_stop_kind_known"),
        ]
        indexes = [
            models.Index(fields=["organization"], condition=Q(lifted_at=None), name="spending_stop_in_force"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class CustomerRisk(models.Model):
    """The tier of an organization that has paid by card; `pinned_tier` is the operator's and wins."""

    organization = models.OneToOneField("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    tier = models.CharField(max_length=8)
    reasons = models.JSONField(default=list)
    pinned_tier = models.CharField(max_length=8, blank=True)
    pinned_by = models.CharField(max_length=64, blank=True)
    pinned_note = models.CharField(max_length=240, blank=True)
    judged_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(tier__in=["new", "known", "trusted"]), name="customer_tier_known"),
            models.CheckConstraint(
                condition=Q(pinned_tier__in=["", "new", "known", "trusted"]), name="customer_pinned_tier_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.organization_id}: {self.in_force}"

    @property
    def in_force(self) -> str:
        """The tier that counts."""
        return self.pinned_tier or self.tier


class TopUpAttempt(models.Model):
    """One purchase that was begun, counted by organization and by address; `address_digest` is keyed, never plain.

    `terms` is the address of the terms that the buyer was shown and accepted with it.
    """

    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    address_digest = models.CharField(max_length=64, blank=True)
    amount_minor = models.BigIntegerField()
    terms = models.CharField(max_length=240, blank=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["organization", "at"], name="topup_attempt_of_organization"),
            models.Index(fields=["address_digest", "at"], name="topup_attempt_of_address"),
        ]

    def __str__(self) -> str:
        return f"attempt of {self.organization_id} at {self.at:%Y-%m-%d %H:%M}"
