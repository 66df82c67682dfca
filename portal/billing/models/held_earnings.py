"""Earnings of providers whom nobody has identified yet."""

from django.db import models
from django.db.models import F, Q


class HeldEarning(models.Model):
    """What one posting earned an unidentified provider (public id): held, then released or, by policy, expired.

    `matures_at` is kept from the posting: the time in which it was held counts. Claw-backs took `clawed_nano` of it, as
    its maturity then knows; where one took all that was left, it is `ended_tx`.
    """

    tx = models.ForeignKey("billing.LedgerTx", on_delete=models.PROTECT, related_name="+")
    provider = models.CharField(max_length=40, db_index=True)
    amount_nano = models.BigIntegerField()
    clawed_nano = models.BigIntegerField(default=0)
    matures_at = models.DateTimeField()
    held_at = models.DateTimeField()
    ended_tx = models.ForeignKey("billing.LedgerTx", null=True, blank=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tx", "provider"], name="earning_held_once"),
            models.CheckConstraint(
                condition=Q(amount_nano__gt=0, clawed_nano__gte=0, clawed_nano__lte=F("amount_nano")),
                name="held_earning_positive",
            ),
        ]
        indexes = [
            models.Index(fields=["provider", "held_at"], condition=Q(ended_tx=None), name="earning_held"),
        ]

    def __str__(self) -> str:
        return f"{self.provider}: {self.amount_nano} held"

    @property
    def left_nano(self) -> int:
        """What claw-backs have left of it."""
        return self.amount_nano - self.clawed_nano
