"""What a month was closed with, and what the pool publishes of each day."""

from django.db import models
from django.db.models import Q


class PeriodBalance(models.Model):
    """One account's sums of everything that took effect before the period's end; nano units, append-only."""

    period = models.ForeignKey("billing.ClosedPeriod", on_delete=models.PROTECT, related_name="balances")
    account = models.ForeignKey("billing.LedgerAccount", on_delete=models.PROTECT, related_name="+")
    debits = models.BigIntegerField()
    credits = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "period"], name="period_balance_once"),
            models.CheckConstraint(condition=Q(debits__gte=0, credits__gte=0), name="period_balance_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.account_id} at the end of {self.period_id}"


class BooksDay(models.Model):
    """What was booked on one UTC day, as it is published: frozen, each day's digest over its own and the one before."""

    day = models.DateField(unique=True)
    content = models.JSONField()
    previous_sha256 = models.CharField(max_length=64, blank=True)
    sha256 = models.CharField(max_length=64)
    frozen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.day:%Y-%m-%d}"
