"""Versioned, effective-dated prices and provider shares; a version never changes once it is written."""

from django.db import models
from django.db.models import F, Q


class PriceVersion(models.Model):
    """The price of one model from `effective_from`: nano per million tokens, and nano per request.

    Without a provider it is the public price; with one it is what that provider asks for the model on private nodes.
    """

    model = models.ForeignKey("catalog.CatalogModel", on_delete=models.PROTECT, related_name="+")
    provider = models.ForeignKey(
        "providers.Provider", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    version = models.PositiveIntegerField()
    prompt_nano_per_mtok = models.BigIntegerField()
    cached_nano_per_mtok = models.BigIntegerField()
    completion_nano_per_mtok = models.BigIntegerField()
    request_nano = models.BigIntegerField(default=0)
    effective_from = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["model", "provider", "version"], name="price_version_once", nulls_distinct=False
            ),
            models.UniqueConstraint(
                fields=["model", "provider", "effective_from"], name="price_effective_once", nulls_distinct=False
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
        ]

    def __str__(self) -> str:
        return f"{self.model_id} v{self.version}"


class ShareVersion(models.Model):
    """A provider's share in basis points from `effective_from`; without a provider it is the pool's default."""

    provider = models.ForeignKey(
        "providers.Provider", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    share_bps = models.PositiveIntegerField()
    effective_from = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(share_bps__lte=10_000), name="share_at_most_all"),
            models.UniqueConstraint(
                fields=["provider", "effective_from"], name="share_effective_once", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return f"{self.share_bps} bps"
