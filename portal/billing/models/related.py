"""What organizations have in common, and which of them count as one party."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q


class PartyFact(models.Model):
    """One thing that was seen of an organization: a card, a bank account or an address, as a digest alone."""

    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=8)
    digest = models.CharField(max_length=64)
    source = models.CharField(max_length=16)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["organization", "kind", "digest"], name="party_fact_once")]
        indexes = [models.Index(fields=["kind", "digest"], name="party_fact_shared")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.organization_id}"


class Ruling(models.TextChoices):
    """What an operator says of a pair, against or without the facts."""

    RELATED = "related"
    UNRELATED = "unrelated"


class RelatedPair(models.Model):
    """Two organizations with something in common; the one with the lower id comes first.

    `is_related` is what counts: the ruling where there is one, else what the facts say. The poster reads it alone.
    """

    low = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    high = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    kinds = ArrayField(models.CharField(max_length=8), default=list)
    found = models.CharField(max_length=10, blank=True)
    ruling = models.CharField(max_length=10, choices=Ruling, blank=True)
    ruled_by = models.CharField(max_length=64, blank=True)
    ruling_note = models.CharField(max_length=240, blank=True)
    is_related = models.BooleanField(default=False)
    found_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["low", "high"], name="related_pair_once"),
            models.CheckConstraint(condition=Q(low__lt=F("high")), name="related_pair_ordered"),
        ]
        indexes = [models.Index(fields=["low", "high"], condition=Q(is_related=True), name="related_pair_in_force")]

    def __str__(self) -> str:
        return f"{self.low_id} and {self.high_id}"
