"""Who may use a private node."""

from django.db import models


class NodeGuest(models.Model):
    """An organization that a private node is shown to. Nothing is routed there before it has accepted the price.

    `accepted_at` is the newest acceptance: a price that was set later and is dearer waits for another one.
    """

    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="guests")
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    named_by = models.CharField(max_length=64)
    named_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "organization"], name="node_guest_once"),
            models.CheckConstraint(
                condition=models.Q(accepted_at__isnull=True) | models.Q(accepted_at__gte=models.F("named_at")),
                name="node_guest_accepts_after_being_named",
            ),
        ]

    def __str__(self) -> str:
        return f"organization {self.organization_id} on node {self.node_id}"
