"""Payouts, who approved them, and each attempt to send one."""

from django.db import models
from django.db.models import F, Q

from portal.core import ids
from portal.payouts.models.destinations import Rail


def _payout_id() -> str:
    return ids.public_id("payout")


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
    AT_BANK = "at_bank"


OPEN_STATES = [
    "draft",
    "reserved",
    "held",
    "approved",
    "sending",
    "unknown",
    "waiting_funds",
    "needs_review",
    "at_bank",
]


class Payout(models.Model):
    """What one provider is paid for one period; at most one is open per provider.

    `amount_minor` is what is sent. `stripe_fee_minor` is what Stripe takes for it by its price list, `fee_minor` the
    part of that which the provider bears. A final payout may be below the minimum: its provider has left.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_payout_id, editable=False)
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="+")
    currency = models.CharField(max_length=3)
    period_start = models.DateTimeField()
    period_end = models.DateTimeField()
    amount_minor = models.BigIntegerField()
    fee_minor = models.BigIntegerField(default=0)
    stripe_fee_minor = models.BigIntegerField(default=0)
    is_final = models.BooleanField(default=False)
    run = models.ForeignKey(
        "payouts.PayoutRun", null=True, blank=True, on_delete=models.PROTECT, related_name="payouts"
    )
    rail = models.CharField(max_length=8, choices=Rail, default=Rail.STRIPE)
    destination = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=PayoutState, default=PayoutState.DRAFT)
    state_reason = models.CharField(max_length=240, blank=True)
    approval_hash = models.CharField(max_length=64, blank=True)
    stripe_transfer = models.CharField(max_length=64, null=True, blank=True, unique=True)
    reversed_minor = models.BigIntegerField(default=0)
    bank_state = models.CharField(max_length=16, blank=True)
    bank_arrives_at = models.DateTimeField(null=True, blank=True)
    bank_failure = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["provider", "-created_at"], name="payout_of_provider")]
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0, fee_minor__gte=0), name="payout_positive"),
            models.CheckConstraint(
                condition=Q(reversed_minor__gte=0, reversed_minor__lte=F("amount_minor")),
                name="payout_reversed_in_bounds",
            ),
            models.CheckConstraint(condition=Q(state__in=PayoutState.values), name="payout_state_known"),
            models.CheckConstraint(
                condition=~Q(state__in=["transferred", "reversed"])
                | Q(stripe_transfer__isnull=False)
                | Q(rail="manual"),
                name="payout_sent_names_transfer",
            ),
            models.CheckConstraint(condition=Q(period_end__gt=F("period_start")), name="payout_period_forward"),
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
