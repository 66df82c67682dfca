"""Who hears of low credit."""

from django.db import models
from django.db.models import Q


class CreditAlert(models.Model):
    """Below which credit (nano) an organization's owners get an e-mail.

    `crossing` counts how often the credit fell below; `is_low` holds from then until it has clearly risen again, so
    that one crossing is one e-mail.
    """

    organization = models.OneToOneField("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    is_on = models.BooleanField(default=True)
    threshold_nano = models.BigIntegerField()
    is_low = models.BooleanField(default=False)
    crossing = models.PositiveIntegerField(default=0)
    crossed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(threshold_nano__gt=0), name="credit_alert_positive")]

    def __str__(self) -> str:
        return f"credit alert of organization {self.organization_id}"
