"""Frozen statements: what a customer used and paid, or a provider earned and was paid, in one UTC month."""

from django.db import models


class ClosedPeriod(models.Model):
    """One UTC month that is closed: a trigger refuses ledger transactions that would take effect before its end.

    `sha256` is over the balances it closed with (PeriodBalance) and the digest of the month closed before it.
    """

    starts_at = models.DateTimeField(unique=True)
    ends_at = models.DateTimeField(unique=True)
    closed_at = models.DateTimeField()
    closed_by = models.CharField(max_length=64)
    previous_sha256 = models.CharField(max_length=64, blank=True)
    sha256 = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.starts_at:%Y-%m}"


class StatementKind(models.TextChoices):
    """Whose month it is."""

    CUSTOMER = "customer"
    PROVIDER = "provider"


class Statement(models.Model):
    """One party's month, half open in UTC. `content` holds lines and totals, `sha256` is over its canonical JSON.

    `letterhead` is who spoke to whom when it was frozen, so that its PDF stays the same when names change.
    """

    number = models.CharField(max_length=32, unique=True)
    kind = models.CharField(max_length=10, choices=StatementKind)
    party = models.CharField(max_length=40, db_index=True)
    currency = models.CharField(max_length=3)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    content = models.JSONField()
    letterhead = models.JSONField(default=dict)
    sha256 = models.CharField(max_length=64)
    frozen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "party", "starts_at"], name="statement_once")]

    def __str__(self) -> str:
        return self.number
