"""Promotional credit, grant by grant."""

from django.db import models
from django.db.models import F, Q

from portal.core import ids


def _grant_id() -> str:
    return ids.public_id("grant")


class PromoGrant(models.Model):
    """One gift of credit (nano). What expires first is spent first; without `expires_at` it never expires.

    `rest_nano` is what of it was left when the grants of its organization were last settled against their account:
    the rests add up to at least the account's balance, and to exactly that right after.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_grant_id, editable=False)
    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="+")
    key = models.CharField(max_length=96)
    amount_nano = models.BigIntegerField()
    rest_nano = models.BigIntegerField()
    expired_nano = models.BigIntegerField(default=0)
    note = models.CharField(max_length=240, blank=True)
    tx = models.OneToOneField("billing.LedgerTx", on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    warned_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(rest_nano__gt=0), name="grant_to_expire"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["organization", "key"], name="grant_key_once"),
            models.CheckConstraint(
                condition=Q(
                    amount_nano__gt=0,
                    rest_nano__gte=0,
                    expired_nano__gte=0,
                    amount_nano__gte=F("rest_nano") + F("expired_nano"),
                ),
                name="grant_sound",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
