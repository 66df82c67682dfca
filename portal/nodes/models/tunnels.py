"""Which gateway process holds a node's tunnel: one row a node, compare-and-set by generation."""

from django.db import models


class Tunnel(models.Model):
    """The owner of a node's tunnel. `peer` is where other gateway processes reach it (a Unix path or host:port)."""

    node = models.OneToOneField("nodes.Node", primary_key=True, on_delete=models.CASCADE, related_name="tunnel")
    generation = models.BigIntegerField()
    process = models.CharField(max_length=64)
    peer = models.CharField(max_length=240)
    connected_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.node_id} by {self.process}"
