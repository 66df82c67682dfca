"""How models find nodes: who chooses on a node, what the operator wants of a model, and what each round decided."""

from django.db import models


class PlacementMode(models.TextChoices):
    """Who chooses what a node runs."""

    CHOSEN = "chosen", "The provider chooses"
    AUTOMATIC = "automatic", "The pool chooses"


class PlacementSwitch(models.TextChoices):
    """Whether rounds act. A preview decides and explains, and changes nothing."""

    OFF = "off", "Off"
    PREVIEW = "preview", "Preview"
    ON = "on", "On"


class NodePlacement(models.Model):
    """Who chooses on one node, and the newest round's `verdicts` on each model there.

    `failures` are the models that were placed here and could not be served: `{model id: {"code", "at"}}`.
    """

    node = models.OneToOneField("nodes.Node", primary_key=True, on_delete=models.CASCADE, related_name="placement")
    mode = models.CharField(max_length=12, choices=PlacementMode, default=PlacementMode.CHOSEN)
    verdicts = models.JSONField(default=list)
    failures = models.JSONField(default=dict)
    looked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(mode__in=PlacementMode.values), name="placement_mode_known")
        ]

    def __str__(self) -> str:
        return f"node {self.node_id}: {self.mode}"


class ModelPlacement(models.Model):
    """What the operator wants of a model (`minimum_nodes`, `maximum_nodes`) and what the newest round saw of it.

    `short_since` and `idle_since` remember between rounds, so that a moment's load moves nothing.
    """

    model = models.OneToOneField(
        "catalog.CatalogModel", primary_key=True, on_delete=models.CASCADE, related_name="placement"
    )
    minimum_nodes = models.PositiveSmallIntegerField(default=0)
    maximum_nodes = models.PositiveSmallIntegerField(null=True, blank=True)
    short_since = models.DateTimeField(null=True, blank=True)
    idle_since = models.DateTimeField(null=True, blank=True)
    seen = models.JSONField(default=dict)
    looked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(maximum_nodes=None) | models.Q(maximum_nodes__gte=models.F("minimum_nodes")),
                name="placement_minimum_within_maximum",
            )
        ]

    def __str__(self) -> str:
        return f"model {self.model_id}"


class PlacementPolicy(models.Model):
    """How rounds decide: one row, the operator's."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    switch = models.CharField(max_length=8, choices=PlacementSwitch, default=PlacementSwitch.PREVIEW)
    grow_at_percent = models.PositiveSmallIntegerField(default=80)
    shrink_at_percent = models.PositiveSmallIntegerField(default=25)
    short_for_s = models.PositiveIntegerField(default=120)
    idle_for_s = models.PositiveIntegerField(default=1800)
    stay_s = models.PositiveIntegerField(default=3600)
    moves_a_round = models.PositiveSmallIntegerField(default=10)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="placement_policy_once"),
            models.CheckConstraint(
                condition=models.Q(switch__in=PlacementSwitch.values), name="placement_switch_known"
            ),
            models.CheckConstraint(
                condition=models.Q(shrink_at_percent__lt=models.F("grow_at_percent")),
                name="placement_shrinks_below_growth",
            ),
        ]

    def __str__(self) -> str:
        return self.switch


class PlacementRound(models.Model):
    """One round that moved or would have moved something, or that held still for a reason worth telling."""

    at = models.DateTimeField(db_index=True)
    switch = models.CharField(max_length=8, choices=PlacementSwitch)
    code = models.CharField(max_length=48)
    moves = models.JSONField(default=list)

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.code}"
