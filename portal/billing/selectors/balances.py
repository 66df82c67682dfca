"""Balances of ledger accounts, in nano units on each account's normal side."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Q, QuerySet, Sum

from portal.billing.models.ledger import LedgerAccount, LedgerTransfer
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import Kind


@dataclass(frozen=True, slots=True)
class CustomerBalance:
    """What a customer has: `held` of it is leased to gateway processes, `debt` is owed to the pool.

    Who pays afterwards may draw up to `limit`; `line` is what is left of that, `line_held` of it leased.
    """

    paid_nano: int
    promo_nano: int
    held_nano: int
    debt_nano: int
    limit_nano: int = 0
    line_nano: int = 0
    line_held_nano: int = 0

    @property
    def total_nano(self) -> int:
        """Paid and promotional credit together."""
        return self.paid_nano + self.promo_nano

    @property
    def drawn_nano(self) -> int:
        """What was drawn of the postpaid line and is not paid yet."""
        return self.limit_nano - self.line_nano

    @property
    def free_nano(self) -> int:
        """Credit that no gateway process holds."""
        return self.total_nano - self.held_nano


@dataclass(frozen=True, slots=True)
class ProviderBalance:
    """What a provider has: maturing, ready to be paid, on its way, owed back to the pool, held until identified,
    and kept back in the rolling reserve.
    """

    pending_nano: int
    available_nano: int
    clearing_nano: int
    debt_nano: int
    held_nano: int = 0
    reserve_nano: int = 0


def balance_of(row: LedgerAccount) -> int:
    """Return the balance that the row's own totals say; only meaningful where it keeps totals."""
    return chart.signed_balance(is_debit_normal=row.is_debit_normal, debits=row.debits, credits_=row.credits)


def free_of(row: LedgerAccount) -> int:
    """Return the row's balance beyond what is held."""
    return balance_of(row) - row.held


def _summed(account_id: int) -> tuple[int, int]:
    """Return an account's debits and credits as its transfers add up."""
    sums = LedgerTransfer.objects.filter(Q(debit_account=account_id) | Q(credit_account=account_id)).aggregate(
        debits=Sum("amount", filter=Q(debit_account=account_id), default=0),
        credits=Sum("amount", filter=Q(credit_account=account_id), default=0),
    )
    return int(sums["debits"]), int(sums["credits"])


def balance(*, account_id: int) -> int:
    """Return an account's balance now: from its totals, or summed where it keeps none."""
    row = LedgerAccount.objects.get(pk=account_id)
    if row.keeps_totals:
        return balance_of(row)
    debits, credits_ = _summed(account_id)
    return chart.signed_balance(is_debit_normal=row.is_debit_normal, debits=debits, credits_=credits_)


def customer_balance(*, organization: str) -> CustomerBalance:
    """Return the balances of one organization (public id); accounts that were never opened count as zero."""
    return standing_of(_owned(organization))


def standing_of(accounts: Iterable[LedgerAccount]) -> CustomerBalance:
    """Return the balances that these accounts of one organization say; those left out count as zero."""
    rows = {row.kind: row for row in accounts}
    line_held = rows[Kind.POSTPAID_LINE].held if Kind.POSTPAID_LINE in rows else 0
    return CustomerBalance(
        paid_nano=_of(rows, Kind.CUSTOMER_CREDIT),
        promo_nano=_of(rows, Kind.PROMO_CREDIT),
        held_nano=sum(row.held for row in rows.values()) - line_held,
        debt_nano=_of(rows, Kind.CUSTOMER_RECEIVABLE),
        limit_nano=_of(rows, Kind.POSTPAID_LIMIT),
        line_nano=_of(rows, Kind.POSTPAID_LINE),
        line_held_nano=line_held,
    )


def account_ids(*, owner: str, kinds: Iterable[Kind]) -> list[int]:
    """Return the ids of the owner's accounts of these kinds, as far as they were ever opened."""
    codes = [chart.code(kind, owner) for kind in kinds]
    return list(LedgerAccount.objects.filter(code__in=codes).order_by("pk").values_list("pk", flat=True))


def provider_balance(*, provider: str) -> ProviderBalance:
    """Return the balances of one provider (public id); accounts that were never opened count as zero."""
    return _provider_balance({row.kind: row for row in _owned(provider)})


def provider_balances(*, providers: Iterable[str]) -> dict[str, ProviderBalance]:
    """Return the balances of each of these providers (public ids) in one query."""
    rows: dict[str, dict[str, LedgerAccount]] = {owner: {} for owner in providers}
    for row in LedgerAccount.objects.filter(owner__in=rows).order_by("pk"):
        rows[row.owner][row.kind] = row
    return {owner: _provider_balance(found) for owner, found in rows.items()}


def _provider_balance(rows: Mapping[str, LedgerAccount]) -> ProviderBalance:
    return ProviderBalance(
        pending_nano=_of(rows, Kind.PROVIDER_PENDING),
        available_nano=_of(rows, Kind.PROVIDER_AVAILABLE),
        clearing_nano=_of(rows, Kind.PAYOUT_CLEARING),
        debt_nano=_of(rows, Kind.PROVIDER_RECEIVABLE),
        reserve_nano=_of(rows, Kind.PROVIDER_RESERVE),
        held_nano=_of(rows, Kind.PROVIDER_HELD),
    )


def available_by_provider() -> dict[str, int]:
    """Return what each provider (public id) could be paid now, where that is more than nothing."""
    rows = LedgerAccount.objects.filter(kind=Kind.PROVIDER_AVAILABLE).order_by("pk")
    return {row.owner: balance_of(row) for row in rows if balance_of(row) > 0}


def _owned(owner: str) -> QuerySet[LedgerAccount]:
    return LedgerAccount.objects.filter(owner=owner).order_by("pk")


def _of(rows: Mapping[str, LedgerAccount], kind: Kind) -> int:
    row = rows.get(kind)
    return balance_of(row) if row else 0
