"""A provider's account at Stripe."""

from django.db import models
from django.db.models import Q


class AccountState(models.TextChoices):
    """What a provider's Stripe account can do, computed from the account itself."""

    NOT_STARTED = "not_started"
    ONBOARDING = "onboarding"
    IN_REVIEW = "in_review"
    ACTIVE = "active"
    ACTION_REQUIRED = "action_required"
    RESTRICTED = "restricted"
    UNSUPPORTED = "unsupported"
    CLOSED = "closed"


class PayoutAccount(models.Model):
    """A provider's account at Stripe; the state is pulled, never taken from one webhook.

    `order` is what Stripe was asked to open, frozen with the key that `generation` makes; `links` counts the
    single-use onboarding links. `currency` and `bank_fingerprint` are of the bank behind it; the currency outlives an
    unlinking, so that another account is compared with it.
    """

    provider = models.OneToOneField("providers.Provider", on_delete=models.PROTECT, related_name="payout_account")
    stripe_account = models.CharField(max_length=64, null=True, blank=True, unique=True)
    generation = models.PositiveSmallIntegerField(default=1)
    order = models.JSONField(default=dict)
    links = models.PositiveIntegerField(default=0)
    state = models.CharField(max_length=16, choices=AccountState, default=AccountState.NOT_STARTED)
    state_code = models.CharField(max_length=64, blank=True)
    requirements = models.JSONField(default=list)
    due_at = models.DateTimeField(null=True, blank=True)
    bank_payouts_status = models.CharField(max_length=24, blank=True)
    currency = models.CharField(max_length=3, blank=True)
    bank_fingerprint = models.CharField(max_length=64, blank=True)
    first_active_at = models.DateTimeField(null=True, blank=True)
    fetched_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=AccountState.values), name="payout_account_state_known"),
        ]

    def __str__(self) -> str:
        return self.stripe_account or f"provider {self.provider_id}"
