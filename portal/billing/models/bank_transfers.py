"""Money that customers sent to the operator's own bank account, booked by hand."""

from django.db import models
from django.db.models import Q

from portal.core import ids


def _transfer_id() -> str:
    return ids.public_id("bank")


class BankTransferState(models.TextChoices):
    """`entered` waits for another operator; only `booked` moved money; `reversed` gave it back."""

    ENTERED = "entered"
    BOOKED = "booked"
    REFUSED = "refused"
    REVERSED = "reversed"


class BankTransfer(models.Model):
    """One line of the operator's bank statement; its bank reference is booked once."""

    public_id = models.CharField(max_length=40, unique=True, default=_transfer_id, editable=False)
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    reference = models.CharField(max_length=96)
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    received_on = models.DateField()
    payer = models.CharField(max_length=160)
    state = models.CharField(max_length=10, choices=BankTransferState, default=BankTransferState.ENTERED)
    reason = models.CharField(max_length=240, blank=True)
    entered_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    entered_at = models.DateTimeField()
    confirmed_by = models.ForeignKey("accounts.User", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    booked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="bank_transfer_positive"),
            models.CheckConstraint(condition=Q(state__in=BankTransferState.values), name="bank_transfer_state_known"),
            models.UniqueConstraint(
                fields=["reference"], condition=~Q(state="refused"), name="bank_transfer_reference_once"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["booked", "reversed"]) | Q(confirmed_by__isnull=False, booked_at__isnull=False),
                name="bank_transfer_booked_by_someone",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
