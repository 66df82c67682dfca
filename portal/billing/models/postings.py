"""Which usage is booked, by which transaction, and when the earning matures."""

from django.db import models


class UsagePosting(models.Model):
    """One usage record, booked once. The three columns name the record's row in its partition."""

    opened_on = models.DateField()
    request_id = models.UUIDField()
    attempt = models.SmallIntegerField()
    tx = models.ForeignKey("billing.LedgerTx", on_delete=models.PROTECT, related_name="usage")
    charge_nano = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["opened_on", "request_id", "attempt"], name="usage_posted_once"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id}/{self.attempt}"


class EarningMaturity(models.Model):
    """When one posting's earning becomes available to its provider (public id), and by which transaction it did."""

    tx = models.ForeignKey("billing.LedgerTx", on_delete=models.PROTECT, related_name="maturities")
    provider = models.CharField(max_length=40, db_index=True)
    amount_nano = models.BigIntegerField()
    matures_at = models.DateTimeField(db_index=True)
    matured_tx = models.ForeignKey(
        "billing.LedgerTx", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tx", "provider"], name="earning_matures_once"),
            models.CheckConstraint(condition=models.Q(amount_nano__gt=0), name="earning_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.provider}: {self.amount_nano}"
