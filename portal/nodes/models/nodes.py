"""A machine, its GPUs and the events of its life."""

from django.db import models

from portal.core import ids


def _node_id() -> str:
    return ids.public_id("node")


class NodeClass(models.TextChoices):
    """Who stands behind the node; shown at key creation and in every request record."""

    HOUSE = "house"
    CONTRACTED = "contracted"
    COMMUNITY = "community"
    UNIDENTIFIED = "unidentified"


class NodeOrigin(models.TextChoices):
    """Whose machine it is: the operator's own, rented by the operator, or a provider's."""

    OWNED = "owned"
    RENTED = "rented"
    PROVIDER = "provider"


class NodeState(models.TextChoices):
    """Where the node stands; rules.states holds the one transition table."""

    ENROLLED = "enrolled"
    CHECKING = "checking"
    READY = "ready"
    SERVING = "serving"
    DEGRADED = "degraded"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"
    OFFLINE = "offline"
    SUSPENDED = "suspended"
    RETIRED = "retired"


class Node(models.Model):
    """One enrolled machine, bound to the Ed25519 key its agent made (`public_key`, base64 of 32 bytes).

    `has_check_matters` is false where no round of checks is open and no enforced check fails, so that a heartbeat need
    not look.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_node_id, editable=False)
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=80)
    node_class = models.CharField(max_length=16, choices=NodeClass)
    origin = models.CharField(max_length=12, choices=NodeOrigin, default=NodeOrigin.PROVIDER)
    country = models.CharField(max_length=2, blank=True)
    region = models.CharField(max_length=32, blank=True)
    public_key = models.CharField(max_length=64, unique=True)
    state = models.CharField(max_length=16, choices=NodeState, default=NodeState.ENROLLED)
    state_code = models.CharField(max_length=48, blank=True)
    state_cause = models.CharField(max_length=24, blank=True)
    state_reason = models.CharField(max_length=240, blank=True)
    state_changed_at = models.DateTimeField()
    is_drain_wanted = models.BooleanField(default=False)
    is_private = models.BooleanField(default=False)
    agent_wish = models.CharField(max_length=8, default="serve")
    is_simulated = models.BooleanField(default=False)
    has_check_matters = models.BooleanField(default=False)
    generation = models.BigIntegerField(default=0)
    last_heartbeat_at = models.DateTimeField(null=True, blank=True)
    last_address = models.GenericIPAddressField(null=True, blank=True)
    clock_offset_ms = models.BigIntegerField(null=True, blank=True)
    agent_version = models.CharField(max_length=32, blank=True)
    host = models.JSONField(default=dict)
    load = models.JSONField(default=dict)
    enrolled_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["state", "last_heartbeat_at"], name="node_by_sign_of_life")]
        constraints = [
            models.CheckConstraint(condition=models.Q(state__in=NodeState.values), name="node_state_known"),
            models.CheckConstraint(condition=models.Q(node_class__in=NodeClass.values), name="node_class_known"),
            models.CheckConstraint(condition=models.Q(origin__in=NodeOrigin.values), name="node_origin_known"),
        ]

    def __str__(self) -> str:
        return self.public_id


class Gpu(models.Model):
    """One GPU as the node reports it: a claim until a check has demanded work of it.

    `unread_code` says why `report` is out of date: the GPU, or the library, cannot be read at the moment.
    `fault_code` says why no new work may be given to it.
    """

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="gpus")
    uuid = models.CharField(max_length=64)
    index = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=96, blank=True)
    memory_bytes = models.BigIntegerField(null=True, blank=True)
    driver = models.CharField(max_length=32, blank=True)
    compute_capability = models.CharField(max_length=8, blank=True)
    report = models.JSONField(default=dict)
    is_present = models.BooleanField(default=True)
    unread_code = models.CharField(max_length=48, blank=True)
    fault_code = models.CharField(max_length=48, blank=True)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["uuid"], name="gpu_by_uuid")]
        constraints = [models.UniqueConstraint(fields=["node", "uuid"], name="gpu_once_a_node")]

    def __str__(self) -> str:
        return self.uuid


class NodeEvent(models.Model):
    """One move of a node's state, with its cause. Append-only."""

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="events")
    at = models.DateTimeField()
    from_state = models.CharField(max_length=16, blank=True)
    to_state = models.CharField(max_length=16)
    code = models.CharField(max_length=48)
    cause = models.CharField(max_length=24)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["node", "-at"], name="node_event_by_node")]

    def __str__(self) -> str:
        return f"{self.from_state} to {self.to_state}: {self.code}"
