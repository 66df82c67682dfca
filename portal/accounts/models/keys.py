"""API keys: `sk-pool-<public id>-<secret>-<checksum>`, stored as SHA-256 of the whole key."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from portal.accounts.models.terms import LIMITS, Budgeted, Limited, period_known, positive_or_none


class ApiKey(Limited, Budgeted):
    """A key of a customer. The secret is shown once; `digest` is the hex SHA-256 of the full key text.

    Rotation gives the same key another secret, so that limits, budget and usage stay one; the secrets before it are
    `RetiredSecret` rows, and `grace_until` is when the last of them ends.
    """

    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="api_keys")
    project = models.ForeignKey(
        "accounts.Project", null=True, blank=True, on_delete=models.PROTECT, related_name="api_keys"
    )
    public_id = models.CharField(max_length=24, unique=True)
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True)
    node_classes = ArrayField(models.CharField(max_length=16))
    allows_tools = models.BooleanField(default=True)
    tools_on_any_class = models.BooleanField(default=False)
    is_private_only = models.BooleanField(default=False)
    allowed_models = ArrayField(models.CharField(max_length=96), null=True, blank=True)
    networks = ArrayField(models.CharField(max_length=43), default=list, blank=True)
    countries = ArrayField(models.CharField(max_length=2), null=True, blank=True)
    created_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    rotated_at = models.DateTimeField(null=True, blank=True)
    grace_until = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            positive_or_none("api_key_limits_positive", *LIMITS, "budget_cap_nano"),
            period_known("api_key_period_known"),
            models.CheckConstraint(
                condition=(Q(allowed_models__isnull=True) | Q(allowed_models__len__gt=0))
                & (Q(countries__isnull=True) | Q(countries__len__gt=0))
                & Q(node_classes__len__gt=0),
                name="api_key_lists_allow_something",
            ),
            models.CheckConstraint(
                condition=Q(grace_until__isnull=True) | Q(rotated_at__isnull=False), name="api_key_grace_after_rotation"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class RetiredSecret(models.Model):
    """A secret that rotation replaced. It works until `works_until`; it is kept so that its refusal can say so."""

    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="retired_secrets")
    digest = models.CharField(max_length=64, unique=True)
    retired_at = models.DateTimeField()
    works_until = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(works_until__gte=models.F("retired_at")), name="retired_secret_ends_after_it_retired"
            ),
        ]

    def __str__(self) -> str:
        return f"secret of key {self.key_id} retired at {self.retired_at:%Y-%m-%d %H:%M}"


class KeySighting(models.Model):
    """A network and country that a key was used from; country is empty where no trusted proxy tells it."""

    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="sightings")
    network = models.CharField(max_length=43)
    country = models.CharField(max_length=2, blank=True)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    old_secret_seen_at = models.DateTimeField(null=True, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["key", "network", "country"], name="key_sighting_once"),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(checked_at=None), name="key_sighting_unchecked"),
        ]

    def __str__(self) -> str:
        return f"key {self.key_id} from {self.network} {self.country}".rstrip()


class AlertKind(models.TextChoices):
    """What is unusual about a key's use."""

    NEW_NETWORK = "new_network"
    NEW_COUNTRY = "new_country"
    SPEND_SPIKE = "spend_spike"


class KeyAlert(models.Model):
    """One unusual thing about a key, told once; `subject` is the network, the country or the hour."""

    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="alerts")
    kind = models.CharField(max_length=12, choices=AlertKind)
    subject = models.CharField(max_length=64)
    detail = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["key", "kind", "subject"], name="key_alert_once"),
            models.CheckConstraint(condition=Q(kind__in=AlertKind.values), name="key_alert_kind_known"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} of key {self.key_id}"
