"""Paying providers: their account at Stripe, payouts and each attempt to send one."""

from django.db import models
from django.db.models import Q

from portal.core import ids


def _payout_id() -> str:
    return ids.public_id("payout")


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
    """A provider's account at Stripe; the state is pulled, never taken from one webhook."""

    provider = models.OneToOneField("providers.Provider", on_delete=models.PROTECT, related_name="payout_account")
    stripe_account = models.CharField(max_length=64, null=True, blank=True, unique=True)
    state = models.CharField(max_length=16, choices=AccountState, default=AccountState.NOT_STARTED)
    state_code = models.CharField(max_length=64, blank=True)
    requirements = models.JSONField(default=list)
    due_at = models.DateTimeField(null=True, blank=True)
    bank_payouts_status = models.CharField(max_length=24, blank=True)
    fetched_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=AccountState.values), name="payout_account_state_known"),
        ]

    def __str__(self) -> str:
        return self.stripe_account or f"provider {self.provider_id}"


class PayoutState(models.TextChoices):
    """Where a payout stands; rules.states holds the one transition table."""

    DRAFT = "draft"
    RESERVED = "reserved"
    HELD = "held"
    APPROVED = "approved"
    SENDING = "sending"
    TRANSFERRED = "transferred"
    UNKNOWN = "unknown"
    WAITING_FUNDS = "waiting_funds"
    NEEDS_REVIEW = "needs_review"
    REJECTED = "rejected"
    CANCELED = "canceled"
    REVERSED = "reversed"


OPEN_STATES = ["draft", "reserved", "held", "approved", "sending", "unknown", "waiting_funds", "needs_review"]


class Payout(models.Model):
    """What one provider is paid for one period; at most one is open per provider."""

    public_id = models.CharField(max_length=40, unique=True, default=_payout_id, editable=False)
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="+")
    currency = models.CharField(max_length=3)
    period_start = models.DateTimeField()
    period_end = models.DateTimeField()
    amount_minor = models.BigIntegerField()
    destination = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=PayoutState, default=PayoutState.DRAFT)
    state_reason = models.CharField(max_length=240, blank=True)
    approval_hash = models.CharField(max_length=64, blank=True)
    stripe_transfer = models.CharField(max_length=64, null=True, blank=True, unique=True)
    bank_state = models.CharField(max_length=16, blank=True)
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="payout_positive"),
            models.CheckConstraint(condition=Q(state__in=PayoutState.values), name="payout_state_known"),
            models.UniqueConstraint(
                fields=["provider", "currency"],
                condition=Q(state__in=OPEN_STATES),
                name="payout_one_open_a_provider",
            ),
            models.UniqueConstraint(
                fields=["provider", "currency", "period_end"],
                condition=~Q(state__in=["rejected", "canceled"]),
                name="payout_one_a_period",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class PayoutApproval(models.Model):
    """One operator's yes to exactly this amount, currency and destination (`approval_hash`)."""

    payout = models.ForeignKey(Payout, on_delete=models.PROTECT, related_name="approvals")
    approved_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    approval_hash = models.CharField(max_length=64)
    approved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["payout", "approved_by", "approval_hash"], name="payout_approved_once_each"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.payout_id} by {self.approved_by_id}"


class PayoutAttempt(models.Model):
    """One idempotency key and the frozen parameters that go with it."""

    payout = models.ForeignKey(Payout, on_delete=models.PROTECT, related_name="attempts")
    number = models.PositiveSmallIntegerField()
    idempotency_key = models.CharField(max_length=96, unique=True)
    params = models.JSONField()
    created_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True, blank=True)
    first_sent_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    result = models.CharField(max_length=24, blank=True)
    error_code = models.CharField(max_length=64, blank=True)
    error_message = models.CharField(max_length=400, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["payout", "number"], name="payout_attempt_number_once")]

    def __str__(self) -> str:
        return self.idempotency_key
