"""What the portal itself saw of a node: how far its claims run ahead of the count, what it did against the rules."""

from django.db import models
from django.db.models import Q


class TokenBias(models.Model):
    """Sums over the attempts of one node and model whose tokens we counted ourselves, old ones fading out.

    `allowed_tokens` are the end tokens that no count can see.
    """

    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="+")
    model = models.ForeignKey("catalog.CatalogModel", on_delete=models.PROTECT, related_name="+")
    attempts = models.BigIntegerField(default=0)
    claimed_prompt_tokens = models.BigIntegerField(default=0)
    counted_prompt_tokens = models.BigIntegerField(default=0)
    claimed_completion_tokens = models.BigIntegerField(default=0)
    counted_completion_tokens = models.BigIntegerField(default=0)
    allowed_tokens = models.BigIntegerField(default=0)
    has_tolerance = models.BooleanField(default=True)
    changed_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "model"], name="token_bias_once"),
            models.CheckConstraint(
                condition=Q(
                    attempts__gte=0,
                    claimed_prompt_tokens__gte=0,
                    counted_prompt_tokens__gte=0,
                    claimed_completion_tokens__gte=0,
                    counted_completion_tokens__gte=0,
                    allowed_tokens__gte=0,
                ),
                name="token_bias_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} on {self.model_id}"


class EngineAudit(models.Model):
    """One node's claims for one model beside its engine's own counters, summed since the engine last began to count.

    `settled_*` are the claims as they were at the last reading: by now the engine must have counted them.
    """

    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="+")
    model = models.ForeignKey("catalog.CatalogModel", on_delete=models.PROTECT, related_name="+")
    claimed_prompt_tokens = models.BigIntegerField(default=0)
    claimed_completion_tokens = models.BigIntegerField(default=0)
    settled_prompt_tokens = models.BigIntegerField(default=0)
    settled_completion_tokens = models.BigIntegerField(default=0)
    engine_prompt_tokens = models.BigIntegerField(default=0)
    engine_completion_tokens = models.BigIntegerField(default=0)
    last_prompt_counter = models.BigIntegerField(null=True, blank=True)
    last_completion_counter = models.BigIntegerField(null=True, blank=True)
    restarts = models.PositiveIntegerField(default=0)
    is_exceeded = models.BooleanField(default=False)
    changed_at = models.DateTimeField(null=True, blank=True)
    read_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "model"], name="engine_audit_once")]

    def __str__(self) -> str:
        return f"engine of {self.node_id} on {self.model_id}"


class EngineMinute(models.Model):
    """What one node claimed for one model in one minute, and what its engine counted between two readings in it.

    Engine figures are None where the engine has no counters or counted anew.
    """

    audit = models.ForeignKey(EngineAudit, on_delete=models.CASCADE, related_name="minutes")
    minute = models.DateTimeField()
    claimed_prompt_tokens = models.BigIntegerField()
    claimed_completion_tokens = models.BigIntegerField()
    engine_prompt_tokens = models.BigIntegerField(null=True, blank=True)
    engine_completion_tokens = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["audit", "minute"], name="engine_minute_once")]
        indexes = [models.Index(fields=["minute"], name="engine_minute_age")]

    def __str__(self) -> str:
        return f"{self.audit_id} at {self.minute:%Y-%m-%d %H:%M}"


class NodeEvidence(models.Model):
    """What the gateway saw of a node within one hour against one rule: the first incident's facts, and how many.

    `detail` and `sample` hold protocol facts (sizes, counts, names, hashes), never a customer's text.
    """

    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="+")
    rule = models.CharField(max_length=40)
    hour = models.DateTimeField()
    count = models.BigIntegerField()
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    detail = models.CharField(max_length=200, blank=True)
    sample = models.CharField(max_length=512, blank=True)
    request_id = models.UUIDField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "rule", "hour"], name="node_evidence_once_an_hour"),
            models.CheckConstraint(condition=Q(count__gt=0), name="node_evidence_counts"),
        ]
        indexes = [models.Index(fields=["hour"], name="node_evidence_hour")]

    def __str__(self) -> str:
        return f"{self.rule} of {self.node_id}"


class CacheAudit(models.Model):
    """What one node must have had in its prefix cache for one model, and what it says it had; old sums fade out."""

    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="+")
    model = models.ForeignKey("catalog.CatalogModel", on_delete=models.PROTECT, related_name="+")
    expected_tokens = models.BigIntegerField(default=0)
    claimed_tokens = models.BigIntegerField(default=0)
    hides_cache = models.BooleanField(default=False)
    changed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "model"], name="cache_audit_once"),
            models.CheckConstraint(
                condition=Q(claimed_tokens__gte=0, expected_tokens__gte=models.F("claimed_tokens")),
                name="cache_audit_sound",
            ),
        ]

    def __str__(self) -> str:
        return f"cache of {self.node_id} on {self.model_id}"
