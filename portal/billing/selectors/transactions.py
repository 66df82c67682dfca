"""Ledger transactions as people read them: what moved a party's accounts, and the operator's journal."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Q, QuerySet

from portal.billing.models import LedgerAccount, LedgerTransfer, LedgerTx
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import Kind

_SPENDABLE = (Kind.CUSTOMER_CREDIT, Kind.PROMO_CREDIT, Kind.CUSTOMER_RECEIVABLE)


@dataclass(frozen=True, slots=True)
class Movement:
    """One transaction's effect on a party's accounts; positive is in the party's favour."""

    tx_id: str
    at: datetime
    kind: str
    source_type: str
    source_id: str
    note: str
    amount_nano: int


@dataclass(frozen=True, slots=True)
class AccountBalance:
    """One account with its sums, its balance on its normal side and what is held of it."""

    account: LedgerAccount
    debits: int
    credits: int
    balance_nano: int


@dataclass(frozen=True, slots=True)
class TrialBalance:
    """Every account of one currency; `difference_nano` is 0 in every sound ledger."""

    currency: str
    debit_nano: int
    credit_nano: int

    @property
    def difference_nano(self) -> int:
        """Debit balances less credit balances."""
        return self.debit_nano - self.credit_nano


@dataclass(frozen=True, slots=True)
class Asked:
    """Which transactions are asked for; an empty field asks for all."""

    kind: str = ""
    account: str = ""
    source: str = ""


_MOVEMENTS = """
    SELECT tx.id, tx.effective_at, tx.kind, tx.source_type, tx.source_id, tx.note, sum(moves.amount)
    FROM (
        SELECT tx_id, amount FROM billing_ledgertransfer WHERE credit_account_id = ANY(%(accounts)s)
        UNION ALL
        SELECT tx_id, -amount FROM billing_ledgertransfer WHERE debit_account_id = ANY(%(accounts)s)
    ) moves
    JOIN billing_ledgertx tx ON tx.id = moves.tx_id
    WHERE NOT tx.kind = ANY(%(without)s)
    GROUP BY tx.id HAVING sum(moves.amount) <> 0
    ORDER BY tx.effective_at DESC, tx.id DESC LIMIT %(limit)s OFFSET %(offset)s
"""
_SUMS = """
    SELECT account_id, sum(debits)::bigint, sum(credits)::bigint FROM (
        SELECT debit_account_id AS account_id, amount AS debits, 0 AS credits FROM billing_ledgertransfer
        UNION ALL
        SELECT credit_account_id, 0, amount FROM billing_ledgertransfer
    ) sides GROUP BY account_id
"""


def customer_movements(
    *, organization: str, with_usage: bool = False, limit: int = 50, offset: int = 0
) -> list[Movement]:
    """Return what moved a customer's credit and debt, newest first; usage, which is many, only if asked for."""
    return _movements(organization, _SPENDABLE, () if with_usage else ("usage",), limit, offset)


def provider_movements(*, provider: str, limit: int = 50, offset: int = 0) -> list[Movement]:
    """Return payouts, reversals and other events that moved what a provider is owed; usage is left out."""
    return _movements(provider, chart.PROVIDER_KINDS, ("usage",), limit, offset)


def journal(*, asked: Asked, limit: int = 50, offset: int = 0) -> QuerySet[LedgerTx]:
    """Return transactions, newest first, by kind, account code, source id or key."""
    rows = LedgerTx.objects.prefetch_related("transfers__debit_account", "transfers__credit_account")
    if asked.kind:
        rows = rows.filter(kind=asked.kind)
    if asked.source:
        rows = rows.filter(Q(source_id=asked.source) | Q(idempotency_key=asked.source))
    if asked.account:
        code = asked.account
        parts = LedgerTransfer.objects.filter(Q(debit_account__code=code) | Q(credit_account__code=code))
        rows = rows.filter(pk__in=parts.values("tx"))
    return rows.order_by("-created_at", "-id")[offset : offset + limit]


def kinds() -> list[str]:
    """Return the kinds of transactions that occur, by name."""
    return list(LedgerTx.objects.order_by("kind").values_list("kind", flat=True).distinct())


def accounts(*, kind: str = "", owner: str = "", limit: int = 100, offset: int = 0) -> list[AccountBalance]:
    """Return accounts by code with their balances: from their totals, summed for those that keep none."""
    rows = LedgerAccount.objects.order_by("code")
    if kind:
        rows = rows.filter(kind=kind)
    if owner:
        rows = rows.filter(owner=owner)
    page = list(rows[offset : offset + limit])
    hot = _sums_of([row.pk for row in page if not row.keeps_totals])
    return [_with_balance(row, *hot.get(row.pk, (row.debits, row.credits))) for row in page]


def trial_balance() -> list[TrialBalance]:
    """Return the trial balance of each currency, summed from the transfers themselves."""
    with connection.cursor() as cursor:
        cursor.execute(_SUMS)
        sums = {row[0]: (int(row[1]), int(row[2])) for row in cursor.fetchall()}
    totals: dict[str, list[int]] = {}
    for row in LedgerAccount.objects.order_by("currency"):
        debits, credits_ = sums.get(row.pk, (0, 0))
        side = totals.setdefault(row.currency, [0, 0])
        side[0 if row.is_debit_normal else 1] += debits - credits_ if row.is_debit_normal else credits_ - debits
    return [TrialBalance(currency, debit, credit) for currency, (debit, credit) in totals.items()]


def _movements(
    owner: str, wanted: tuple[Kind, ...], without: tuple[str, ...], limit: int, offset: int
) -> list[Movement]:
    ids = list(LedgerAccount.objects.filter(owner=owner, kind__in=wanted).values_list("pk", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(_MOVEMENTS, {"accounts": ids, "without": list(without), "limit": limit, "offset": offset})
        rows = cursor.fetchall()
    return [
        Movement(str(tx), at, kind, source_type, source_id, note, int(amount))
        for tx, at, kind, source_type, source_id, note, amount in rows
    ]


def _sums_of(ids: list[int]) -> dict[int, tuple[int, int]]:
    if not ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT account_id, sum(debits)::bigint, sum(credits)::bigint FROM (
                SELECT debit_account_id AS account_id, amount AS debits, 0 AS credits
                FROM billing_ledgertransfer WHERE debit_account_id = ANY(%(ids)s)
                UNION ALL
                SELECT credit_account_id, 0, amount FROM billing_ledgertransfer WHERE credit_account_id = ANY(%(ids)s)
            ) sides GROUP BY account_id
            """,
            {"ids": ids},
        )
        return {row[0]: (int(row[1]), int(row[2])) for row in cursor.fetchall()}


def _with_balance(row: LedgerAccount, debits: int, credits_: int) -> AccountBalance:
    balance = chart.signed_balance(is_debit_normal=row.is_debit_normal, debits=debits, credits_=credits_)
    return AccountBalance(row, debits, credits_, balance)
