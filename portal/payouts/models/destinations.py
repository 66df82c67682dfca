"""Where a provider's money goes besides Stripe, and every change of where it goes."""

from django.db import models
from django.db.models import Q

from portal.core import ids


def _bank_account_id() -> str:
    return ids.public_id("bank")


class Rail(models.TextChoices):
    """By which way a payout travels."""

    STRIPE = "stripe", "Stripe"
    MANUAL = "manual", "Bank transfer by the operator"


class BankScheme(models.TextChoices):
    """How the account is named."""

    IBAN = "iban", "IBAN"
    US = "us", "United States: routing and account number"
    SWIFT = "swift", "Anywhere else: BIC and account number"


class BankAccountState(models.TextChoices):
    """Whether payouts may go to it."""

    SUBMITTED = "submitted"
    VERIFIED = "verified"
    REFUSED = "refused"
    REPLACED = "replaced"
    WITHDRAWN = "withdrawn"


CURRENT_STATES = ["submitted", "verified"]


class BankAccount(models.Model):
    """One set of bank details as it was given; another set is another row, so that a payout names exactly one.

    `details` are sealed with SECRET_KEY; pages show `last4`. `fingerprint` is the same for the same account.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_bank_account_id, editable=False)
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="bank_accounts")
    scheme = models.CharField(max_length=8, choices=BankScheme)
    holder = models.CharField(max_length=140)
    country = models.CharField(max_length=2)
    currency = models.CharField(max_length=3)
    details = models.TextField()
    last4 = models.CharField(max_length=4)
    fingerprint = models.CharField(max_length=64, db_index=True)
    state = models.CharField(max_length=12, choices=BankAccountState, default=BankAccountState.SUBMITTED)
    reason = models.CharField(max_length=240, blank=True)
    given_by = models.CharField(max_length=64)
    given_at = models.DateTimeField()
    decided_by = models.CharField(max_length=64, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=BankAccountState.values), name="bank_account_state_known"),
            models.CheckConstraint(condition=Q(scheme__in=BankScheme.values), name="bank_account_scheme_known"),
            models.UniqueConstraint(
                fields=["provider"], condition=Q(state__in=CURRENT_STATES), name="bank_account_one_current"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.holder}, …{self.last4}"


class ChangeKind(models.TextChoices):
    """What changed about where a provider's money goes."""

    STRIPE_OPENED = "stripe_opened", "Account at Stripe linked"
    STRIPE_UNLINKED = "stripe_unlinked", "Account at Stripe unlinked"
    STRIPE_BANK = "stripe_bank", "Bank account at Stripe changed"
    BANK_GIVEN = "bank_given", "Bank details given"
    BANK_WITHDRAWN = "bank_withdrawn", "Bank details withdrawn"
    PROFILE = "profile", "Name, country or e-mail changed"


class DestinationChange(models.Model):
    """One change, kept for good. Until `holds_until` nothing is paid to the provider."""

    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="destination_changes")
    kind = models.CharField(max_length=16, choices=ChangeKind)
    before = models.CharField(max_length=240, blank=True)
    after = models.CharField(max_length=240, blank=True)
    changed_by = models.CharField(max_length=64)
    address = models.GenericIPAddressField(null=True, blank=True)
    changed_at = models.DateTimeField()
    holds_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=ChangeKind.values), name="destination_change_kind_known"),
        ]
        indexes = [models.Index(fields=["provider", "-changed_at"], name="destination_change_newest")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.provider_id}"


class ManualTransfer(models.Model):
    """The operators' words about one payout by bank transfer: told to the bank, paid by it, perhaps sent back."""

    payout = models.OneToOneField("payouts.Payout", on_delete=models.PROTECT, related_name="manual_transfer")
    reference = models.CharField(max_length=140)
    ordered_on = models.DateField()
    sent_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    sent_at = models.DateTimeField()
    paid_on = models.DateField(null=True, blank=True)
    confirmed_by = models.ForeignKey("accounts.User", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    confirmed_at = models.DateTimeField(null=True, blank=True)
    returned_on = models.DateField(null=True, blank=True)
    returned_reason = models.CharField(max_length=240, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(confirmed_at=None, confirmed_by=None, paid_on=None)
                | Q(confirmed_at__isnull=False, confirmed_by__isnull=False, paid_on__isnull=False),
                name="manual_transfer_confirmed_whole",
            ),
            models.CheckConstraint(
                condition=Q(returned_on=None) | Q(confirmed_at__isnull=False),
                name="manual_transfer_returned_after_paid",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.payout_id}: {self.reference}"
