"""Credit bought through a hosted Checkout page, or by charging a saved card while its owner is away."""

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
    """Where the purchase stands.

    `unknown` and `needs_action` are of automatic ones alone: nobody knows whether the card was charged; its owner has
    to confirm on a hosted page.
    """

    CREATED = "created"
    OPEN = "open"
    PROCESSING = "processing"
    UNKNOWN = "unknown"
    NEEDS_ACTION = "needs_action"
    PAID = "paid"
    EXPIRED = "expired"
    FAILED = "failed"


class TopUpOrigin(models.TextChoices):
    """Who began it: a person on a Checkout page, or the pool because the credit was low."""

    CHECKOUT = "checkout"
    AUTO = "auto"


UNFINISHED = ["created", "open", "processing", "unknown", "needs_action"]


class TopUp(models.Model):
    """One purchase: the row is written before Stripe is called; at most one PaymentIntent pays it.

    `amount_minor` becomes credit; `tax_minor` was paid on top of it. `card` is the saved card that an automatic
    purchase charges, frozen with its idempotency key; `confirmation` is the Checkout purchase that its owner was sent.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_topup_id, editable=False)
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    created_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    client_key = models.CharField(max_length=80, blank=True)
    origin = models.CharField(max_length=8, choices=TopUpOrigin, default=TopUpOrigin.CHECKOUT)
    saves_card = models.BooleanField(default=False)
    asks_3ds = models.BooleanField(default=False)
    card = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=12, choices=TopUpState, default=TopUpState.CREATED)
    state_reason = models.CharField(max_length=240, blank=True)
    stripe_customer = models.CharField(max_length=64, blank=True)
    checkout_session = models.CharField(max_length=96, blank=True, db_index=True)
    checkout_url = models.TextField(blank=True)
    payment_intent = models.CharField(max_length=64, null=True, blank=True, unique=True)
    charge = models.CharField(max_length=64, blank=True, db_index=True)
    tax_minor = models.BigIntegerField(default=0)
    fee_minor = models.BigIntegerField(null=True, blank=True)
    invoice = models.CharField(max_length=64, blank=True)
    invoice_url = models.TextField(blank=True)
    receipt_url = models.TextField(blank=True)
    confirmation = models.OneToOneField("self", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)
    paid_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["created_at"],
                condition=Q(state__in=UNFINISHED) | Q(state="paid", fee_minor=None),
                name="topup_unfinished",
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0, tax_minor__gte=0), name="topup_positive"),
            models.CheckConstraint(condition=Q(origin="checkout") | ~Q(card=""), name="topup_auto_names_card"),
            models.UniqueConstraint(
                fields=["organization"],
                condition=Q(origin="auto", state__in=UNFINISHED),
                name="topup_one_open_auto",
            ),
            models.CheckConstraint(condition=Q(state__in=TopUpState.values), name="topup_state_known"),
            models.UniqueConstraint(
                fields=["organization", "client_key"],
                condition=~Q(client_key=""),
                name="topup_client_key_once",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
