"""The rolling reserve: parts of matured earnings that are kept back for a while, and tiers that an operator has set."""

from django.db import models
from django.db.models import F, Q

from portal.billing.rules.trust_tiers import Tier


class TierPin(models.Model):
    """A provider's tier as an operator has set it; it holds until it is taken away."""

    provider = models.OneToOneField("providers.Provider", on_delete=models.PROTECT, related_name="+")
    tier = models.CharField(max_length=12, choices=[(tier.value, tier.value) for tier in Tier])
    reason = models.CharField(max_length=240)
    pinned_by = models.CharField(max_length=64)
    pinned_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(tier__in=[tier.value for tier in Tier]), name="tier_pin_known"),
        ]

    def __str__(self) -> str:
        return f"{self.provider_id}: {self.tier}"


class ReservedEarning(models.Model):
    """The part of one maturity that is kept back from its provider (public id) until `release_at`.

    `clawed_nano` of it was taken by claw-backs; what is left was released by `released_tx`, or taken whole by it.
    """

    tx = models.ForeignKey("billing.LedgerTx", on_delete=models.PROTECT, related_name="reserved")
    provider = models.CharField(max_length=40)
    amount_nano = models.BigIntegerField()
    clawed_nano = models.BigIntegerField(default=0)
    release_at = models.DateTimeField()
    released_tx = models.ForeignKey(
        "billing.LedgerTx", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tx", "provider"], name="earning_reserved_once"),
            models.CheckConstraint(
                condition=Q(amount_nano__gt=0, clawed_nano__gte=0, clawed_nano__lte=F("amount_nano")),
                name="reserved_earning_sound",
            ),
        ]
        indexes = [
            models.Index(fields=["release_at", "id"], condition=Q(released_tx=None), name="reserve_unreleased"),
            models.Index(fields=["provider", "release_at"], name="reserve_of_provider"),
        ]

    def __str__(self) -> str:
        return f"{self.provider}: {self.amount_nano}"

    @property
    def left_nano(self) -> int:
        """What claw-backs have left of it."""
        return self.amount_nano - self.clawed_nano
