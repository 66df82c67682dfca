"""What Stripe charged for a purchase: by which card, and whether its bank authenticated the buyer."""

from django.db import models


class PaidCharge(models.Model):
    """The charge that paid a purchase. `card_digest` stands for the card's number, never for its owner."""

    topup = models.OneToOneField("billing.TopUp", on_delete=models.PROTECT, related_name="paid_charge")
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    charge = models.CharField(max_length=64, unique=True)
    payment = models.CharField(max_length=64, db_index=True)
    card_digest = models.CharField(max_length=64, blank=True, db_index=True)
    card_brand = models.CharField(max_length=32, blank=True)
    card_last4 = models.CharField(max_length=4, blank=True)
    card_country = models.CharField(max_length=2, blank=True)
    is_three_d_secure = models.BooleanField(default=False)
    paid_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["organization", "paid_at"], name="paid_charge_of_organization")]

    def __str__(self) -> str:
        return self.charge


class ForeignCharge(models.Model):
    """A refund, dispute or warning of a charge that paid no purchase of ours: told once, booked nowhere."""

    stripe_object = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=16)
    charge = models.CharField(max_length=64)
    payment = models.CharField(max_length=64, blank=True)
    amount_minor = models.BigIntegerField(null=True, blank=True)
    currency = models.CharField(max_length=3, blank=True)
    noted_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.stripe_object
