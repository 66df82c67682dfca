"""Double entry: each transfer debits one account and credits another by the same positive amount.

Rows are append-only (a trigger refuses UPDATE and DELETE); only services/ledger.py writes them.
"""

from django.db import models
from django.db.models import F, Q

from portal.core import ids


class LedgerAccount(models.Model):
    """One account. `code` is `kind` or `kind:owner`; totals are nano units and only kept where `keeps_totals`."""

    code = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=32, db_index=True)
    owner = models.CharField(max_length=40, blank=True, db_index=True)
    currency = models.CharField(max_length=3)
    is_debit_normal = models.BooleanField()
    has_floor = models.BooleanField()
    keeps_totals = models.BooleanField()
    debits = models.BigIntegerField(default=0)
    credits = models.BigIntegerField(default=0)
    held = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(held__gte=0), name="ledger_held_not_negative"),
            models.CheckConstraint(condition=Q(debits__gte=0, credits__gte=0), name="ledger_totals_not_negative"),
            models.CheckConstraint(
                condition=Q(has_floor=False)
                | Q(is_debit_normal=False, credits__gte=F("debits") + F("held"))
                | Q(is_debit_normal=True, debits__gte=F("credits") + F("held")),
                name="ledger_floor",
            ),
        ]

    def __str__(self) -> str:
        return self.code


class LedgerTx(models.Model):
    """One business event; `idempotency_key` makes it happen once, `content_hash` proves a replay is the same event."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    kind = models.CharField(max_length=32)
    idempotency_key = models.CharField(max_length=160, unique=True)
    content_hash = models.CharField(max_length=64)
    source_type = models.CharField(max_length=32)
    source_id = models.CharField(max_length=96)
    effective_at = models.DateTimeField()
    created_at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=64)
    note = models.CharField(max_length=240, blank=True)
    reverses = models.OneToOneField("self", null=True, blank=True, on_delete=models.PROTECT, related_name="reversed_by")

    class Meta:
        indexes = [
            models.Index(fields=["effective_at", "id"], name="ledger_tx_by_time"),
            models.Index(fields=["kind", "effective_at", "id"], name="ledger_tx_by_kind"),
            models.Index(fields=["source_id"], name="ledger_tx_by_source"),
        ]

    def __str__(self) -> str:
        return self.idempotency_key


class LedgerTransfer(models.Model):
    """One movement: debit one account, credit another, by a positive amount of nano units.

    `effective_at` is the transaction's own: with it an account's balance at any moment is read from its index alone.
    """

    tx = models.ForeignKey(LedgerTx, on_delete=models.PROTECT, related_name="transfers")
    seq = models.PositiveSmallIntegerField()
    effective_at = models.DateTimeField()
    debit_account = models.ForeignKey(LedgerAccount, on_delete=models.PROTECT, related_name="+", db_index=False)
    credit_account = models.ForeignKey(LedgerAccount, on_delete=models.PROTECT, related_name="+", db_index=False)
    amount = models.BigIntegerField()
    currency = models.CharField(max_length=3)

    class Meta:
        indexes = [
            models.Index(
                fields=["debit_account", "effective_at", "id"], include=["amount"], name="ledger_transfer_debits"
            ),
            models.Index(
                fields=["credit_account", "effective_at", "id"], include=["amount"], name="ledger_transfer_credits"
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["tx", "seq"], name="ledger_transfer_seq_once"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="ledger_amount_positive"),
            models.CheckConstraint(condition=~Q(debit_account=F("credit_account")), name="ledger_two_accounts"),
        ]

    def __str__(self) -> str:
        return f"{self.tx_id}/{self.seq}"
