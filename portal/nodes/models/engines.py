"""Which version of an engine nodes should run, and below which none serves."""

from django.db import models

from portal.nodes.models.deployments import EngineKind


class EnginePin(models.Model):
    """The operator's choice for one kind of engine. An empty `version` leaves it to each node."""

    engine = models.CharField(max_length=12, choices=EngineKind, unique=True)
    version = models.CharField(max_length=32, blank=True)
    floor = models.CharField(max_length=16)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(engine__in=EngineKind.values), name="engine_pin_engine_known"),
        ]

    def __str__(self) -> str:
        return f"{self.engine} {self.version or 'any'}, {self.floor} or newer"
