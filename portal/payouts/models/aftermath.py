"""What happens to a payout after its transfer: the way to the bank, and what an operator takes back."""

from django.db import models
from django.db.models import Q

from portal.core import ids


def _reversal_id() -> str:
    return ids.public_id("rev")


class BankLeg(models.Model):
    """One payment of Stripe to the provider's bank that carried the payout; shown, never booked."""

    payout = models.ForeignKey("payouts.Payout", on_delete=models.PROTECT, related_name="bank_legs")
    bank_payout = models.CharField(max_length=64)
    status = models.CharField(max_length=16)
    arrives_at = models.DateTimeField()
    failure = models.CharField(max_length=64, blank=True)
    made_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["payout", "bank_payout"], name="bank_leg_once")]
        indexes = [models.Index(fields=["bank_payout"], name="bank_leg_by_bank_payout")]

    def __str__(self) -> str:
        return f"{self.bank_payout}: {self.status}"


class ReversalState(models.TextChoices):
    """What became of an operator's wish to take a transfer back."""

    REQUESTED = "requested"
    DONE = "done"
    REFUSED = "refused"


class PayoutReversal(models.Model):
    """An operator takes a transfer back, in part or in full; the row comes first and its key is never used anew."""

    public_id = models.CharField(max_length=40, unique=True, default=_reversal_id, editable=False)
    payout = models.ForeignKey("payouts.Payout", on_delete=models.PROTECT, related_name="reversals")
    amount_minor = models.BigIntegerField()
    reason = models.CharField(max_length=240)
    state = models.CharField(max_length=12, choices=ReversalState, default=ReversalState.REQUESTED)
    requested_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    requested_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    error_code = models.CharField(max_length=64, blank=True)
    error_message = models.CharField(max_length=400, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="payout_reversal_positive"),
            models.CheckConstraint(condition=Q(state__in=ReversalState.values), name="payout_reversal_state_known"),
            models.UniqueConstraint(fields=["payout"], condition=Q(state="requested"), name="payout_one_open_reversal"),
        ]

    def __str__(self) -> str:
        return self.public_id
