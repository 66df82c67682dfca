"""Credit bought through a hosted Checkout page."""

from django.db import models
from django.db.models import Q

from portal.core import ids


def _topup_id() -> str:
    return ids.public_id("topup")


class StripeCustomer(models.Model):
    """An organization as Stripe's customer; name and e-mail are what Stripe was told, so a retry tells the same."""

    organization = models.OneToOneField("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=160)
    email = models.EmailField()
    stripe_customer = models.CharField(max_length=64, null=True, blank=True, unique=True)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.stripe_customer or f"organization {self.organization_id}"


class TopUpState(models.TextChoices):
    """Where the purchase stands."""

    CREATED = "created"
    OPEN = "open"
    PROCESSING = "processing"
    PAID = "paid"
    EXPIRED = "expired"
    FAILED = "failed"


UNFINISHED = [TopUpState.CREATED, TopUpState.OPEN, TopUpState.PROCESSING]


class TopUp(models.Model):
    """One purchase: the row is written before Checkout is called; at most one PaymentIntent pays it."""

    public_id = models.CharField(max_length=40, unique=True, default=_topup_id, editable=False)
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    created_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    client_key = models.CharField(max_length=80, blank=True)
    state = models.CharField(max_length=12, choices=TopUpState, default=TopUpState.CREATED)
    state_reason = models.CharField(max_length=240, blank=True)
    stripe_customer = models.CharField(max_length=64, blank=True)
    checkout_session = models.CharField(max_length=96, blank=True, db_index=True)
    checkout_url = models.TextField(blank=True)
    payment_intent = models.CharField(max_length=64, null=True, blank=True, unique=True)
    fee_minor = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()
    paid_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["created_at"],
                condition=Q(state__in=["created", "open", "processing"]) | Q(state="paid", fee_minor=None),
                name="topup_unfinished",
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="topup_positive"),
            models.CheckConstraint(condition=Q(state__in=TopUpState.values), name="topup_state_known"),
            models.UniqueConstraint(
                fields=["organization", "client_key"],
                condition=~Q(client_key=""),
                name="topup_client_key_once",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
