"""What the pool pays for machines that stand ready, whether or not requests come."""

from django.db import models
from django.db.models import F, Q


class AvailabilityRate(models.Model):
    """Nano units for one GPU that is ready for one minute, from `effective_from` (a full UTC hour).

    `gpu_kind` is a kind's name as the planner has it; empty, it holds for all kinds without a rate of their own.
    Without any rate nothing is paid.
    """

    gpu_kind = models.CharField(max_length=64, blank=True)
    nano_per_minute = models.BigIntegerField()
    effective_from = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(nano_per_minute__gte=0), name="availability_rate_not_negative"),
            models.UniqueConstraint(fields=["gpu_kind", "effective_from"], name="availability_rate_once"),
        ]

    def __str__(self) -> str:
        return f"{self.gpu_kind or 'any GPU'}: {self.nano_per_minute}"


class AvailabilityHour(models.Model):
    """One node's pay for one hour, booked once: `minutes` it was ready, times each verified GPU's rate."""

    hour = models.DateTimeField()
    node_id = models.BigIntegerField()
    node = models.CharField(max_length=40)
    provider = models.CharField(max_length=40)
    node_class = models.CharField(max_length=16)
    gpus = models.PositiveSmallIntegerField()
    minutes = models.PositiveSmallIntegerField()
    amount_nano = models.BigIntegerField()
    tx = models.OneToOneField("billing.LedgerTx", on_delete=models.PROTECT, related_name="availability")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node_id", "hour"], name="availability_once_a_node_and_hour"),
            models.CheckConstraint(
                condition=Q(amount_nano__gt=0, minutes__gt=0, minutes__lte=60, gpus__gt=0), name="availability_sound"
            ),
        ]
        indexes = [models.Index(F("provider"), F("hour").desc(), name="availability_by_provider")]

    def __str__(self) -> str:
        return f"{self.node} at {self.hour:%Y-%m-%d %H}h"
