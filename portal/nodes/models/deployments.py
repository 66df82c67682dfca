"""What a node should run, and what it says it runs."""

from django.db import models

from portal.core import ids


def _deployment_id() -> str:
    return ids.public_id("dep")


class EngineKind(models.TextChoices):
    """How the node serves: a vLLM it starts itself, a server that already runs, or the simulator."""

    VLLM = "vllm", "vLLM"
    EXTERNAL = "external", "External server"
    SIMULATE = "simulate", "Simulator"


class DesiredState(models.TextChoices):
    """What the portal asks for."""

    RUNNING = "running"
    STOPPED = "stopped"


class ObservedState(models.TextChoices):
    """What the agent last reported."""

    PENDING = "pending"
    STARTING = "starting"
    READY = "ready"
    STUCK = "stuck"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


class ChosenBy(models.TextChoices):
    """Whose decision the desired state is. Automatic placement never touches a person's."""

    PERSON = "person", "A person"
    AUTOMATIC = "automatic", "Automatic placement"


class Deployment(models.Model):
    """One catalogue model on one node."""

    public_id = models.CharField(max_length=40, unique=True, default=_deployment_id, editable=False)
    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="deployments")
    model = models.ForeignKey("catalog.CatalogModel", on_delete=models.PROTECT, related_name="+")
    engine = models.CharField(max_length=12, choices=EngineKind)
    settings = models.JSONField(default=dict)
    desired = models.CharField(max_length=12, choices=DesiredState, default=DesiredState.RUNNING)
    desired_at = models.DateTimeField(null=True, blank=True)
    chosen_by = models.CharField(max_length=12, choices=ChosenBy, default=ChosenBy.PERSON)
    observed = models.CharField(max_length=12, choices=ObservedState, default=ObservedState.PENDING)
    observed_code = models.CharField(max_length=48, blank=True)
    observed_detail = models.CharField(max_length=400, blank=True)
    observed_at = models.DateTimeField(null=True, blank=True)
    max_concurrency = models.PositiveIntegerField(default=8)
    running = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    counters = models.JSONField(default=dict)
    facts = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "model"], name="deployment_once_a_node"),
            models.CheckConstraint(condition=models.Q(engine__in=EngineKind.values), name="deployment_engine_known"),
            models.CheckConstraint(condition=models.Q(chosen_by__in=ChosenBy.values), name="deployment_chooser_known"),
            models.CheckConstraint(
                condition=models.Q(desired__in=DesiredState.values), name="deployment_desired_known"
            ),
            models.CheckConstraint(
                condition=models.Q(observed__in=ObservedState.values), name="deployment_observed_known"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
