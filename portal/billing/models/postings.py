"""Which usage is booked, by which transaction, and when the earning matures."""

from django.db import models
from django.db.models import F, Q


class UsagePosting(models.Model):
    """One usage record, booked once. The first three columns name the record's row in its partition.

    `provider_nano` is what was booked to the provider; `withheld` says why it is less than the record's share.
    """

    opened_on = models.DateField()
    request_id = models.UUIDField()
    attempt = models.SmallIntegerField()
    tx = models.ForeignKey("billing.LedgerTx", on_delete=models.PROTECT, related_name="usage")
    charge_nano = models.BigIntegerField()
    provider_nano = models.BigIntegerField()
    withheld = models.CharField(max_length=16, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["opened_on", "request_id", "attempt"], name="usage_posted_once"),
            models.CheckConstraint(
                condition=Q(charge_nano__gt=0, provider_nano__gte=0, provider_nano__lte=F("charge_nano")),
                name="usage_posting_sound",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.request_id}/{self.attempt}"


class UnpostableUsage(models.Model):
    """A usage record that the poster could not book, and why; it stays queued and is tried again at `retry_at`."""

    opened_on = models.DateField()
    request_id = models.UUIDField()
    attempt = models.SmallIntegerField()
    code = models.CharField(max_length=48)
    first_seen_at = models.DateTimeField()
    retry_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["opened_on", "request_id", "attempt"], name="usage_unpostable_once"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id}/{self.attempt}: {self.code}"


class EarningMaturity(models.Model):
    """When one posting's earning becomes available to its provider (public id), and by which transaction it did.

    Claw-backs took `clawed_nano` of it; where one took all that was left, it is `matured_tx`.
    """

    tx = models.ForeignKey("billing.LedgerTx", on_delete=models.PROTECT, related_name="maturities")
    provider = models.CharField(max_length=40, db_index=True)
    amount_nano = models.BigIntegerField()
    clawed_nano = models.BigIntegerField(default=0)
    matures_at = models.DateTimeField()
    matured_tx = models.ForeignKey(
        "billing.LedgerTx", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tx", "provider"], name="earning_matures_once"),
            models.CheckConstraint(
                condition=Q(amount_nano__gt=0, clawed_nano__gte=0, clawed_nano__lte=F("amount_nano")),
                name="earning_positive",
            ),
        ]
        indexes = [
            models.Index(
                fields=["provider", "matures_at", "id"], condition=Q(matured_tx=None), name="earning_immature"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider}: {self.amount_nano}"

    @property
    def left_nano(self) -> int:
        """What claw-backs have left of it."""
        return self.amount_nano - self.clawed_nano


class ArchivedUsage(models.Model):
    """What one customer and one provider had of a dropped day; takes the place of its records in every comparison."""

    opened_on = models.DateField()
    organization_id = models.BigIntegerField()
    provider_id = models.BigIntegerField()
    records = models.BigIntegerField()
    charge_nano = models.BigIntegerField()
    earned_nano = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["opened_on", "organization_id", "provider_id"], name="archived_usage_once"),
        ]

    def __str__(self) -> str:
        return f"{self.opened_on}: {self.organization_id} at {self.provider_id}"
