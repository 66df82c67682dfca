"""What the operator's own machines cost, by the hour and from when."""

from django.db import models


class HouseCost(models.Model):
    """What one hour of a house node costs from `effective_from` (nano units). Append-only: the newest that has begun
    holds."""

    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="house_costs")
    nano_per_hour = models.BigIntegerField()
    effective_from = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)

    class Meta:
        ordering = ["-effective_from", "-id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(nano_per_hour__gte=0), name="house_cost_not_negative"),
        ]
        indexes = [models.Index(fields=["node", "-effective_from", "-id"], name="house_cost_by_node")]

    def __str__(self) -> str:
        return f"{self.node_id}: {self.nano_per_hour} an hour"
