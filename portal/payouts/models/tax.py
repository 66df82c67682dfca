"""Who a provider is to the tax office, the VAT of each payout, and the credit notes that the pool writes for it."""

from django.db import models
from django.db.models import F, Q

from portal.core import ids


def _note_id() -> str:
    return ids.public_id("note")


class TaxStatus(models.TextChoices):
    """Whether the provider supplies as a business."""

    PRIVATE = "private"
    BUSINESS = "business"


class TaxProfile(models.Model):
    """What the provider says of itself. VAT is paid on top once an operator has confirmed it; a change undoes that.

    `consent_version` and `consent_sha256` name the agreement under which the provider lets the pool write its
    invoices (self-billing).
    """

    provider = models.OneToOneField("providers.Provider", on_delete=models.PROTECT, related_name="tax_profile")
    status = models.CharField(max_length=10, choices=TaxStatus, default=TaxStatus.PRIVATE)
    is_small_business = models.BooleanField(default=False)
    name = models.CharField(max_length=160)
    address = models.TextField(max_length=400)
    country = models.CharField(max_length=2)
    tax_id = models.CharField(max_length=32, blank=True)
    vat_rate_bps = models.PositiveSmallIntegerField(default=0)
    confirmed_at = models.DateTimeField(null=True, blank=True)
    confirmed_by = models.CharField(max_length=64, blank=True)
    consent_version = models.CharField(max_length=24, blank=True)
    consent_sha256 = models.CharField(max_length=64, blank=True)
    consented_at = models.DateTimeField(null=True, blank=True)
    consented_by = models.CharField(max_length=64, blank=True)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(status__in=TaxStatus.values), name="tax_profile_status_known"),
            models.CheckConstraint(condition=Q(vat_rate_bps__lte=3000), name="tax_profile_rate_in_bounds"),
        ]

    def __str__(self) -> str:
        return f"tax profile of {self.provider_id}"


class PayoutTax(models.Model):
    """How one payout was taxed when its money was set aside; the payout's amount is net and VAT together."""

    payout = models.OneToOneField("payouts.Payout", on_delete=models.PROTECT, related_name="tax")
    treatment = models.CharField(max_length=24)
    rate_bps = models.PositiveSmallIntegerField()
    net_minor = models.BigIntegerField()
    vat_minor = models.BigIntegerField()
    returned_minor = models.BigIntegerField(default=0)
    supplier = models.JSONField(default=dict)
    no_note_reason = models.CharField(max_length=48, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    net_minor__gt=0, vat_minor__gte=0, returned_minor__gte=0, returned_minor__lte=F("vat_minor")
                ),
                name="payout_tax_sound",
            ),
        ]

    def __str__(self) -> str:
        return f"tax of {self.payout_id}"


class CreditNote(models.Model):
    """An invoice that the pool wrote for a provider (self-billing), or the correction of one; frozen, append-only.

    Numbers have no gaps within an issuer's year. `sha256` is over the canonical JSON of `content`.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_note_id, editable=False)
    issuer = models.CharField(max_length=160)
    year = models.PositiveSmallIntegerField()
    sequence = models.PositiveIntegerField()
    number = models.CharField(max_length=40)
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="+")
    payout = models.ForeignKey("payouts.Payout", on_delete=models.PROTECT, related_name="credit_notes")
    corrects = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="corrections")
    key = models.CharField(max_length=96, unique=True)
    currency = models.CharField(max_length=3)
    net_minor = models.BigIntegerField()
    vat_minor = models.BigIntegerField()
    content = models.JSONField()
    sha256 = models.CharField(max_length=64)
    issued_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "year", "sequence"], name="credit_note_numbered_once"),
            models.CheckConstraint(
                condition=Q(corrects=None, net_minor__gt=0, vat_minor__gte=0)
                | Q(corrects__isnull=False, net_minor__lte=0, vat_minor__lte=0),
                name="credit_note_sign",
            ),
        ]

    def __str__(self) -> str:
        return self.number

    @property
    def gross_minor(self) -> int:
        """Net and VAT together."""
        return self.net_minor + self.vat_minor
