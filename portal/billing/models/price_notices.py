"""Who was told of a change of prices, so that nobody is told twice."""

from django.db import models


class PriceNotice(models.Model):
    """One organization was told of a version before it holds, and, where it was canceled after that, of that too."""

    version = models.ForeignKey("billing.PriceVersion", on_delete=models.PROTECT, related_name="notices")
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    sent_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "organization"], name="price_notice_once"),
        ]

    def __str__(self) -> str:
        return f"{self.organization_id} of {self.version_id}"
