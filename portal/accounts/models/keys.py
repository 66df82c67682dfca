"""API keys: `sk-pool-<public id>-<secret>-<checksum>`, stored as SHA-256 of the whole key."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class ApiKey(models.Model):
    """A key of a customer. The secret is shown once; `digest` is the hex SHA-256 of the full key text."""

    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="api_keys")
    public_id = models.CharField(max_length=24, unique=True)
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True)
    node_classes = ArrayField(models.CharField(max_length=16))
    tools_on_any_class = models.BooleanField(default=False)
    monthly_cap_nano = models.BigIntegerField(null=True, blank=True)
    created_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(monthly_cap_nano__isnull=True) | models.Q(monthly_cap_nano__gt=0),
                name="api_key_cap_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
