"""Releases of the agent, as far as they have been rolled out, and what nodes say of their updates."""

from django.db import models


class ReleaseRing(models.TextChoices):
    """Which nodes a release may reach: the operator's own first, then those under contract, then all."""

    HOUSE = "house", "House nodes"
    CONTRACTED = "contracted", "House and contracted nodes"
    ALL = "all", "All nodes"


class ReleaseState(models.TextChoices):
    """Offered, stopped (by an operator or because it failed too often), or taken back for good."""

    OFFERED = "offered"
    HALTED = "halted"
    WITHDRAWN = "withdrawn"


class AgentRelease(models.Model):
    """One version of the agent with its files; `manifest` is kept as it was signed, byte by byte."""

    version = models.CharField(max_length=24, unique=True)
    order = models.BigIntegerField(unique=True)
    protocol = models.PositiveIntegerField()
    manifest = models.BinaryField()
    signature = models.CharField(max_length=120, blank=True)
    wheel_name = models.CharField(max_length=128)
    wheel = models.BinaryField()
    requirements = models.BinaryField()
    state = models.CharField(max_length=12, choices=ReleaseState, default=ReleaseState.OFFERED)
    state_code = models.CharField(max_length=48, blank=True)
    ring = models.CharField(max_length=12, choices=ReleaseRing, default=ReleaseRing.ALL)
    percent = models.PositiveSmallIntegerField(default=0)
    published_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(percent__lte=100), name="release_percent_within_bounds"),
            models.CheckConstraint(condition=models.Q(ring__in=ReleaseRing.values), name="release_ring_known"),
            models.CheckConstraint(condition=models.Q(state__in=ReleaseState.values), name="release_state_known"),
        ]

    def __str__(self) -> str:
        return self.version


class NodeUpdates(models.Model):
    """What a node says of updates: whether its owner lets them come, and how the last one went."""

    node = models.OneToOneField("nodes.Node", primary_key=True, on_delete=models.CASCADE, related_name="updates")
    policy = models.CharField(max_length=12)
    tried = models.CharField(max_length=24, blank=True)
    code = models.CharField(max_length=48, blank=True)
    said_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["tried", "code"], name="node_updates_by_version")]

    def __str__(self) -> str:
        return f"{self.node_id}: {self.tried} {self.code}"
