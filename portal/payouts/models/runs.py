"""One run of payouts: what was drafted together, who was skipped and why, and what was checked before it is sent."""

from django.db import models
from django.db.models import Q

from portal.core import ids


def _run_id() -> str:
    return ids.public_id("run")


class RunOrigin(models.TextChoices):
    """What made the run."""

    SCHEDULE = "schedule", "the schedule"
    OPERATOR = "operator", "an operator"
    COMMAND = "command", "a command"


class PayoutRun(models.Model):
    """One run. `findings` are of the last check, which was made of exactly what `checked_hash` stands for."""

    public_id = models.CharField(max_length=40, unique=True, default=_run_id, editable=False)
    origin = models.CharField(max_length=12, choices=RunOrigin)
    currency = models.CharField(max_length=3)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)
    findings = models.JSONField(default=list)
    checked_hash = models.CharField(max_length=64, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(origin__in=RunOrigin.values), name="payout_run_origin_known"),
        ]
        indexes = [models.Index(fields=["-created_at", "-id"], name="payout_run_newest")]

    def __str__(self) -> str:
        return self.public_id


class RunSkip(models.Model):
    """A provider who is owed money and was not paid in the run, by a stable code and its figures."""

    run = models.ForeignKey(PayoutRun, on_delete=models.CASCADE, related_name="skips")
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="+")
    code = models.CharField(max_length=32)
    detail = models.CharField(max_length=240, blank=True)
    available_nano = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "provider"], name="payout_run_skips_once")]

    def __str__(self) -> str:
        return f"{self.provider_id}: {self.code}"
