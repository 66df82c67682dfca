"""Providers: who supplies nodes, under which agreement."""

from django.db import models

from portal.core import ids


def _provider_id() -> str:
    return ids.public_id("prov")


class ProviderState(models.TextChoices):
    """Where the provider stands with the operator."""

    DRAFT = "draft"
    SUBMITTED = "submitted"
    APPROVED = "approved"
    REJECTED = "rejected"
    SUSPENDED = "suspended"


class ProviderKind(models.TextChoices):
    """`house` is the operator's own (no payout); `contracted` has signed terms; `independent` is anyone else."""

    HOUSE = "house"
    CONTRACTED = "contracted"
    INDEPENDENT = "independent"


class Provider(models.Model):
    """The supplying side of an organization.

    `is_held_full`: it earned before it was identified, and what is held back has reached its cap.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_provider_id, editable=False)
    organization = models.OneToOneField("accounts.Organization", on_delete=models.PROTECT, related_name="provider")
    kind = models.CharField(max_length=12, choices=ProviderKind, default=ProviderKind.INDEPENDENT)
    state = models.CharField(max_length=12, choices=ProviderState, default=ProviderState.DRAFT)
    state_reason = models.CharField(max_length=240, blank=True)
    legal_name = models.CharField(max_length=160)
    contact_email = models.EmailField()
    country = models.CharField(max_length=2)
    is_identified = models.BooleanField(default=False)
    is_held_full = models.BooleanField(default=False)
    may_use_external_engine = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(kind__in=ProviderKind.values), name="provider_kind_known"),
            models.CheckConstraint(condition=models.Q(state__in=ProviderState.values), name="provider_state_known"),
        ]

    def __str__(self) -> str:
        return self.legal_name


class Agreement(models.Model):
    """One version of the provider agreement."""

    version = models.CharField(max_length=24, unique=True)
    text = models.TextField()
    sha256 = models.CharField(max_length=64)
    effective_from = models.DateTimeField()

    class Meta:
        ordering = ["-effective_from", "-id"]

    def __str__(self) -> str:
        return self.version


class AgreementAcceptance(models.Model):
    """Who accepted which version for which provider, and when."""

    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="acceptances")
    agreement = models.ForeignKey(Agreement, on_delete=models.PROTECT, related_name="+")
    accepted_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    accepted_at = models.DateTimeField()
    address = models.GenericIPAddressField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["provider", "agreement"], name="agreement_accepted_once")]

    def __str__(self) -> str:
        return f"{self.provider_id} accepted {self.agreement_id}"
