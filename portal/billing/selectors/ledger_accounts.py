"""Accounts with their balances: one by one, summed by kind, and as they were at a moment."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Sum

from portal.billing.models import LedgerAccount
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import KINDS, Kind
from portal.billing.selectors import sums
from portal.billing.selectors.sums import AccountSums
from portal.core.errors import NotFound


@dataclass(frozen=True, slots=True)
class AccountBalance:
    """One account with its sums and its balance on its normal side, in nano units."""

    account: LedgerAccount
    debits: int
    credits: int
    balance_nano: int


@dataclass(frozen=True, slots=True)
class KindBalance:
    """All accounts of one kind together; `debit_nano` or `credit_nano` is its balance, by the side it is on."""

    kind: str
    count: int
    debit_nano: int
    credit_nano: int


def account(code: str) -> LedgerAccount:
    """Return one account. Raises NotFound."""
    row = LedgerAccount.objects.filter(code=code).first()
    if row is None:
        raise NotFound("there is no such account", param="account")
    return row


def accounts(
    *, now: datetime, kind: str = "", owner: str = "", after: str = "", limit: int = 50
) -> list[AccountBalance]:
    """Return accounts by code from the one behind `after` on, with their balances."""
    rows = LedgerAccount.objects.order_by("code")
    if kind:
        rows = rows.filter(kind=kind)
    if owner:
        rows = rows.filter(owner=owner)
    if after:
        rows = rows.filter(code__gt=after)
    page = list(rows[:limit])
    hot = sums.sums_of(account_ids=[row.pk for row in page if not row.keeps_totals], at=_ever(now))
    return [_with_balance(row, *hot.get(row.pk, (row.debits, row.credits))) for row in page]


def by_kind(*, now: datetime) -> list[KindBalance]:
    """Return the balance of each kind now: from running totals, or summed where a kind keeps none."""
    rows = LedgerAccount.objects.filter(keeps_totals=True).values("kind").order_by("kind")
    owned = {
        row["kind"]: (row["n"], int(row["d"]), int(row["c"]))
        for row in rows.annotate(n=Count("pk"), d=Sum("debits"), c=Sum("credits"))
    }
    hot = {row.kind: row.pk for row in LedgerAccount.objects.filter(keeps_totals=False)}
    summed = sums.sums_of(account_ids=hot.values(), at=_ever(now))
    owned |= {kind: (1, *summed.get(pk, (0, 0))) for kind, pk in hot.items()}
    return [_kind(kind, *owned[kind]) for kind in Kind if kind in owned]


def summed_by_kind(rows: Iterable[AccountSums]) -> list[KindBalance]:
    """Return accounts as they were at a moment, summed by kind, in the chart's order."""
    totals: dict[str, tuple[int, int, int]] = {}
    for row in rows:
        count, debits, credits_ = totals.get(row.kind, (0, 0, 0))
        totals[row.kind] = (count + 1, debits + row.debits, credits_ + row.credits)
    return [_kind(kind, *totals[kind]) for kind in Kind if kind in totals]


def _kind(kind: str, count: int, debits: int, credits_: int) -> KindBalance:
    is_debit = KINDS[Kind(kind)].is_debit_normal
    balance = chart.signed_balance(is_debit_normal=is_debit, debits=debits, credits_=credits_)
    return KindBalance(kind, count, balance if is_debit else 0, 0 if is_debit else balance)


def _ever(now: datetime) -> datetime:
    """Return a moment behind everything that is booked: a line may take effect in the second that runs."""
    return now.replace(year=now.year + 100, day=1)


def _with_balance(row: LedgerAccount, debits: int, credits_: int) -> AccountBalance:
    balance = chart.signed_balance(is_debit_normal=row.is_debit_normal, debits=debits, credits_=credits_)
    return AccountBalance(row, debits, credits_, balance)
