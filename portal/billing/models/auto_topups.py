"""Cards that buyers saved, and what the pool may charge to one of them when the credit is low."""

from django.db import models
from django.db.models import F, Q

from portal.core import ids


def _card_id() -> str:
    return ids.public_id("card")


class CustomerCard(models.Model):
    """A card saved at Stripe with its owner's consent; the pool knows what is printed on a receipt, never the number.

    One that was `removed_at` is never charged again; `forgotten_at` is when Stripe had let it go too.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_card_id, editable=False)
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    stripe_card = models.CharField(max_length=64, unique=True)
    brand = models.CharField(max_length=32)
    last4 = models.CharField(max_length=4)
    exp_month = models.PositiveSmallIntegerField()
    exp_year = models.PositiveSmallIntegerField()
    fingerprint = models.CharField(max_length=64, blank=True, db_index=True)
    country = models.CharField(max_length=2, blank=True)
    saved_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)
    forgotten_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["removed_at"],
                condition=Q(removed_at__isnull=False, forgotten_at=None),
                name="card_to_forget",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.brand} …{self.last4}"


class AutoTopUp(models.Model):
    """When to charge which card for how much, at most so much in a calendar month (UTC); minor units.

    This row is the lock under which an automatic purchase begins. `failures` in a row delay the next one until
    `retry_at`; `off_reason` says why the pool itself turned it off.
    """

    organization = models.OneToOneField("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    is_on = models.BooleanField(default=False)
    threshold_minor = models.BigIntegerField()
    amount_minor = models.BigIntegerField()
    monthly_cap_minor = models.BigIntegerField()
    card = models.ForeignKey(CustomerCard, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    set_by = models.ForeignKey("accounts.User", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    failures = models.PositiveSmallIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    off_reason = models.CharField(max_length=240, blank=True)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(threshold_minor__gt=0, amount_minor__gt=0, monthly_cap_minor__gte=F("amount_minor")),
                name="auto_topup_sound",
            ),
            models.CheckConstraint(condition=Q(is_on=False) | Q(card__isnull=False), name="auto_topup_has_card"),
        ]

    def __str__(self) -> str:
        return f"auto top-up of organization {self.organization_id}"
