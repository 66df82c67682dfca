"""Money that goes back to the card that paid."""

from django.db import models
from django.db.models import F, Q

from portal.core import ids


def _refund_id() -> str:
    return ids.public_id("refund")


class RefundState(models.TextChoices):
    """Where a refund stands; rules.refunds holds the one transition table."""

    REQUESTED = "requested"
    RESERVED = "reserved"
    SENDING = "sending"
    UNKNOWN = "unknown"
    NEEDS_REVIEW = "needs_review"
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class RefundOrigin(models.TextChoices):
    """Who wanted it; `stripe`: it was made in Stripe's dashboard and is only booked here."""

    CUSTOMER = "customer"
    OPERATOR = "operator"
    STRIPE = "stripe"


UNSETTLED = [
    RefundState.RESERVED,
    RefundState.SENDING,
    RefundState.UNKNOWN,
    RefundState.PENDING,
]


class Refund(models.Model):
    """One refund of one purchase. Its money is set aside in the ledger from the first moment on.

    `amount_minor` is what the card gets back, `tax_minor` the tax in it; `debt_nano` is what of it was no longer there
    and became the customer's debt. `is_sent` and `is_returned` say what is booked of Stripe's own movements.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_refund_id, editable=False)
    topup = models.ForeignKey("billing.TopUp", on_delete=models.PROTECT, related_name="refunds")
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    charge = models.CharField(max_length=64)
    amount_minor = models.BigIntegerField()
    tax_minor = models.BigIntegerField(default=0)
    debt_nano = models.BigIntegerField(default=0)
    currency = models.CharField(max_length=3)
    origin = models.CharField(max_length=8, choices=RefundOrigin)
    note = models.CharField(max_length=240, blank=True)
    state = models.CharField(max_length=12, choices=RefundState)
    state_reason = models.CharField(max_length=240, blank=True)
    stripe_refund = models.CharField(max_length=64, null=True, blank=True, unique=True)
    is_sent = models.BooleanField(default=False)
    is_returned = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    next_try_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["organization", "-created_at"], name="refund_of_organization"),
            models.Index(fields=["changed_at"], condition=Q(state__in=UNSETTLED), name="refund_unsettled"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(amount_minor__gt=0, tax_minor__gte=0, tax_minor__lte=F("amount_minor"), debt_nano__gte=0),
                name="refund_amounts_sound",
            ),
            models.CheckConstraint(condition=Q(state__in=RefundState.values), name="refund_state_known"),
            models.CheckConstraint(
                condition=~Q(state__in=["pending", "succeeded"]) | Q(stripe_refund__isnull=False),
                name="refund_sent_names_it",
            ),
            models.CheckConstraint(condition=Q(is_returned=False) | Q(is_sent=True), name="refund_returned_after_sent"),
        ]

    def __str__(self) -> str:
        return self.public_id


class RefundAttempt(models.Model):
    """One idempotency key and the frozen parameters that go with it."""

    refund = models.ForeignKey(Refund, on_delete=models.PROTECT, related_name="attempts")
    number = models.PositiveSmallIntegerField()
    idempotency_key = models.CharField(max_length=96, unique=True)
    params = models.JSONField()
    created_at = models.DateTimeField()
    first_sent_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    result = models.CharField(max_length=24, blank=True)
    error_code = models.CharField(max_length=64, blank=True)
    error_message = models.CharField(max_length=400, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["refund", "number"], name="refund_attempt_number_once")]

    def __str__(self) -> str:
        return self.idempotency_key
