"""What the portal itself saw of a node: how far its claims run ahead of our count."""

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
