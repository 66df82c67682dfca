"""Credit that a gateway process may spend from memory, and budgets leased in the same way."""

from django.db import models
from django.db.models import F, Q


class LeaseState(models.TextChoices):
    """`open` may be spent from; `closing` waits for the spool's last record; `closed` has returned its rest."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class CreditLease(models.Model):
    """A slice of one credit account held for one spool. `used` is what posted usage took of `granted` (nano)."""

    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    account = models.ForeignKey("billing.LedgerAccount", on_delete=models.PROTECT, related_name="+")
    spool = models.ForeignKey("metering.Spool", on_delete=models.PROTECT, related_name="+")
    granted = models.BigIntegerField()
    used = models.BigIntegerField(default=0)
    state = models.CharField(max_length=8, choices=LeaseState, default=LeaseState.OPEN)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(granted__gte=F("used"), used__gte=0), name="credit_lease_covers_used"),
            models.CheckConstraint(condition=Q(state__in=LeaseState.values), name="credit_lease_state_known"),
            models.UniqueConstraint(
                fields=["account", "spool"], condition=Q(state="open"), name="credit_lease_one_open"
            ),
        ]

    def __str__(self) -> str:
        return f"lease {self.pk}"


class BudgetWindow(models.Model):
    """One window of a budget, half open in UTC. `leased` is granted to processes and not yet used.

    `archived` is what of `used` was charged by records that were dropped since.

    `owner` is the public id of a key, a project or an organization; a rotated key stays the same owner.
    """

    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    owner = models.CharField(max_length=40)
    period = models.CharField(max_length=8)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, blank=True)
    cap_nano = models.BigIntegerField()
    used_nano = models.BigIntegerField(default=0)
    leased_nano = models.BigIntegerField(default=0)
    archived_nano = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "period", "starts_at", "ends_at"], nulls_distinct=False, name="budget_window_once"
            ),
            models.CheckConstraint(
                condition=Q(used_nano__gte=0, leased_nano__gte=0), name="budget_window_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(ends_at__isnull=True) | Q(ends_at__gt=F("starts_at")), name="budget_window_has_length"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.period} budget of {self.owner} from {self.starts_at:%Y-%m-%d}"


class BudgetLease(models.Model):
    """A slice of a budget window held for one spool."""

    window = models.ForeignKey(BudgetWindow, on_delete=models.PROTECT, related_name="+")
    spool = models.ForeignKey("metering.Spool", on_delete=models.PROTECT, related_name="+")
    granted = models.BigIntegerField()
    used = models.BigIntegerField(default=0)
    state = models.CharField(max_length=8, choices=LeaseState, default=LeaseState.OPEN)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(granted__gte=F("used"), used__gte=0), name="budget_lease_covers_used"),
            models.CheckConstraint(condition=Q(state__in=LeaseState.values), name="budget_lease_state_known"),
            models.UniqueConstraint(
                fields=["window", "spool"], condition=Q(state="open"), name="budget_lease_one_open"
            ),
        ]

    def __str__(self) -> str:
        return f"budget lease {self.pk}"
