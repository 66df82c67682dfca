"""What the portal itself saw of a node: how far its claims run ahead of our count."""

from django.db import models


class TokenBias(models.Model):
    """Sums over the attempts of one node and model whose tokens we counted ourselves."""

    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="+")
    model = models.ForeignKey("catalog.CatalogModel", on_delete=models.PROTECT, related_name="+")
    attempts = models.BigIntegerField(default=0)
    claimed_tokens = models.BigIntegerField(default=0)
    counted_tokens = models.BigIntegerField(default=0)
    has_tolerance = models.BooleanField(default=True)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "model"], name="token_bias_once")]

    def __str__(self) -> str:
        return f"{self.node_id} on {self.model_id}"


class TrustCursor(models.Model):
    """How far a reader of usage records has come (upper rooms pull by cursor)."""

    name = models.CharField(max_length=40, primary_key=True)
    position = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} at {self.position}"
