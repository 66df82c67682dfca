"""Versioned, effective-dated prices and provider shares; a version never changes once it is written."""

from django.db import models
from django.db.models import F, Q


class PriceVersion(models.Model):
    """The price of one model from `effective_from`: nano per million tokens, and nano per request.

    Without a provider and an organization it is the public price. With a provider it is what that provider asks for the
    model on private nodes; with an organization it is what that customer pays instead of the public price, until
    `effective_until` where there is one.
    """

    model = models.ForeignKey("catalog.CatalogModel", on_delete=models.PROTECT, related_name="+")
    provider = models.ForeignKey(
        "providers.Provider", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    organization = models.ForeignKey(
        "accounts.Organization", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    version = models.PositiveIntegerField()
    prompt_nano_per_mtok = models.BigIntegerField()
    cached_nano_per_mtok = models.BigIntegerField()
    completion_nano_per_mtok = models.BigIntegerField()
    request_nano = models.BigIntegerField(default=0)
    effective_from = models.DateTimeField()
    effective_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["model", "provider", "organization", "version"], name="price_version_once", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(
                    prompt_nano_per_mtok__gte=0,
                    cached_nano_per_mtok__gte=0,
                    completion_nano_per_mtok__gte=0,
                    request_nano__gte=0,
                ),
                name="price_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(cached_nano_per_mtok__lte=F("prompt_nano_per_mtok")), name="price_cached_not_dearer"
            ),
            models.CheckConstraint(condition=Q(provider=None) | Q(organization=None), name="price_one_scope"),
            models.CheckConstraint(
                condition=Q(effective_until=None)
                | (Q(effective_until__gt=F("effective_from")) & Q(organization__isnull=False)),
                name="price_end_of_an_override",
            ),
        ]
        indexes = [
            models.Index(fields=["model", "provider", "organization", "effective_from"], name="price_by_moment"),
        ]

    def __str__(self) -> str:
        return f"{self.model_id} v{self.version}"


class PriceEnd(models.Model):
    """From `at` on the version holds no more; where that is no later than its beginning it was canceled unused.

    A row of its own, since a version never changes.
    """

    version = models.OneToOneField(PriceVersion, on_delete=models.PROTECT, related_name="end")
    at = models.DateTimeField()
    reason = models.CharField(max_length=240, blank=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.version_id} until {self.at}"


class ShareTier(models.Model):
    """A group of providers that share a share, under the operator's own name for it."""

    name = models.CharField(max_length=40, unique=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)

    def __str__(self) -> str:
        return self.name


class TierMembership(models.Model):
    """The tier a provider is in from `effective_from`; without a tier it is in none from then on."""

    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="+")
    tier = models.ForeignKey(ShareTier, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    effective_from = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "effective_from"], name="tier_membership_once"),
        ]

    def __str__(self) -> str:
        return f"{self.provider_id} in {self.tier_id}"


class ShareVersion(models.Model):
    """A share in basis points from `effective_from`: a provider's own, a tier's, or without both the pool's default.

    Without `share_bps` the provider or tier has none of its own from then on, and the next in order holds.
    """

    provider = models.ForeignKey(
        "providers.Provider", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    tier = models.ForeignKey(ShareTier, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    share_bps = models.PositiveIntegerField(null=True, blank=True)
    effective_from = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(share_bps=None) | Q(share_bps__lte=10_000), name="share_at_most_all"),
            models.CheckConstraint(condition=Q(provider=None) | Q(tier=None), name="share_one_scope"),
            models.CheckConstraint(
                condition=Q(share_bps__isnull=False) | Q(provider__isnull=False) | Q(tier__isnull=False),
                name="share_default_is_stated",
            ),
            models.UniqueConstraint(
                fields=["provider", "tier", "effective_from"], name="share_effective_once", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return "none of its own" if self.share_bps is None else f"{self.share_bps} bps"
