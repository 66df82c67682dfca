"""Organizations that were invited to pay afterwards, and what they are billed."""

from django.db import models
from django.db.models import F, Q

from portal.core import ids


def _bill_id() -> str:
    return ids.public_id("bill")


class PostpaidState(models.TextChoices):
    """Only `active` can be spent from; `stopped` is overdue; `ended` may still owe."""

    OFFERED = "offered"
    ACTIVE = "active"
    STOPPED = "stopped"
    ENDED = "ended"


class Postpaid(models.Model):
    """An operator's offer to pay afterwards, up to a limit (nano), each month's bill within so many days."""

    organization = models.OneToOneField("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    limit_nano = models.BigIntegerField()
    due_days = models.PositiveSmallIntegerField()
    state = models.CharField(max_length=8, choices=PostpaidState, default=PostpaidState.OFFERED)
    state_reason = models.CharField(max_length=240, blank=True)
    revision = models.PositiveIntegerField(default=0)
    offered_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    offered_at = models.DateTimeField()
    accepted_by = models.ForeignKey("accounts.User", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    accepted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(limit_nano__gte=0), name="postpaid_limit_not_negative"),
            models.CheckConstraint(condition=Q(state__in=PostpaidState.values), name="postpaid_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=["offered", "ended"]) | Q(accepted_at__isnull=False),
                name="postpaid_accepted_before_use",
            ),
        ]

    def __str__(self) -> str:
        return f"postpaid of organization {self.organization_id}"


class PostpaidBill(models.Model):
    """What an organization drew on its line in one closed month; frozen, its lines are the month's statement.

    `drawn_nano` is drawn in the month, `total_drawn_nano` ever until its end. What is paid settles the oldest first:
    a bill is settled once all that was ever paid reaches `total_drawn_nano`. `due_nano` was open when it was made.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_bill_id, editable=False)
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    statement = models.OneToOneField("billing.Statement", on_delete=models.PROTECT, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    drawn_nano = models.BigIntegerField()
    total_drawn_nano = models.BigIntegerField()
    due_nano = models.BigIntegerField()
    made_at = models.DateTimeField()
    due_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True, blank=True)
    written_off_nano = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organization", "starts_at"], name="bill_once_a_month"),
            models.CheckConstraint(
                condition=Q(drawn_nano__gt=0, due_nano__gte=0, total_drawn_nano__gte=F("drawn_nano")),
                name="bill_sound",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
