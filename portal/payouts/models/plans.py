"""When a provider wants to be paid, and whether it has left the pool."""

from django.db import models
from django.db.models import Q


class Schedule(models.TextChoices):
    """When a payout is drafted by itself; empty is the pool's own choice."""

    POOL = "", "As the pool does"
    MONTHLY = "monthly", "Once a month"
    THRESHOLD = "threshold", "Whenever an amount is reached"


class PayoutPlan(models.Model):
    """One provider's choice. After `left_at` the rest is paid out below the minimum; `settled_at` ends it."""

    provider = models.OneToOneField("providers.Provider", on_delete=models.PROTECT, related_name="payout_plan")
    schedule = models.CharField(max_length=12, choices=Schedule, blank=True)
    threshold_minor = models.BigIntegerField(null=True, blank=True)
    left_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(schedule__in=Schedule.values), name="payout_plan_schedule_known"),
            models.CheckConstraint(
                condition=Q(threshold_minor__isnull=True) | Q(threshold_minor__gt=0),
                name="payout_plan_threshold_positive",
            ),
            models.CheckConstraint(
                condition=~Q(schedule="threshold") | Q(threshold_minor__isnull=False),
                name="payout_plan_threshold_given",
            ),
        ]

    def __str__(self) -> str:
        return f"plan of {self.provider_id}"
