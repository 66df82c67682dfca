"""When the ledger was checked, and what differed."""

from django.db import models
from django.db.models import Q


class LedgerCheck(models.Model):
    """One run of `ledger_check`; `stripe_problem` says why Stripe's own books were left out, where they were."""

    checked_at = models.DateTimeField(db_index=True)
    took_ms = models.PositiveIntegerField()
    difference_count = models.PositiveIntegerField()
    stripe_problem = models.CharField(max_length=240, blank=True)

    def __str__(self) -> str:
        return f"{self.checked_at:%Y-%m-%d %H:%M}: {self.difference_count}"


class LedgerDifference(models.Model):
    """One difference from the check that first saw it until the one that saw it gone; told to operators once."""

    code = models.CharField(max_length=48)
    subject = models.CharField(max_length=240)
    expected = models.TextField()
    actual = models.TextField()
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["code", "subject"], condition=Q(resolved_at=None), name="ledger_difference_once_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.code} {self.subject}"
