"""Balances of ledger accounts, in nano units on each account's normal side."""

from dataclasses import dataclass

from django.db.models import Q, QuerySet, Sum

from portal.billing.models.ledger import LedgerAccount, LedgerTransfer
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import Kind


@dataclass(frozen=True, slots=True)
class CustomerBalance:
    """What a customer has: `held` is leased to gateway processes, `debt` is owed to the pool."""

    paid_nano: int
    promo_nano: int
    held_nano: int
    debt_nano: int

    @property
    def total_nano(self) -> int:
        """Paid and promotional credit together."""
        return self.paid_nano + self.promo_nano

    @property
    def free_nano(self) -> int:
        """Credit that no gateway process holds."""
        return self.total_nano - self.held_nano


@dataclass(frozen=True, slots=True)
class ProviderBalance:
    """What a provider has: maturing, ready to be paid, on its way, owed back to the pool, and held until identified."""

    pending_nano: int
    available_nano: int
    clearing_nano: int
    debt_nano: int
    held_nano: int = 0


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
    rows = {row.kind: row for row in _owned(organization)}
    return CustomerBalance(
        paid_nano=_of(rows, Kind.CUSTOMER_CREDIT),
        promo_nano=_of(rows, Kind.PROMO_CREDIT),
        held_nano=sum(row.held for row in rows.values()),
        debt_nano=_of(rows, Kind.CUSTOMER_RECEIVABLE),
    )


def provider_balance(*, provider: str) -> ProviderBalance:
    """Return the balances of one provider (public id); accounts that were never opened count as zero."""
    rows = {row.kind: row for row in _owned(provider)}
    return ProviderBalance(
        pending_nano=_of(rows, Kind.PROVIDER_PENDING),
        available_nano=_of(rows, Kind.PROVIDER_AVAILABLE),
        clearing_nano=_of(rows, Kind.PAYOUT_CLEARING),
        debt_nano=_of(rows, Kind.PROVIDER_RECEIVABLE),
        held_nano=_of(rows, Kind.PROVIDER_HELD),
    )


def available_by_provider() -> dict[str, int]:
    """Return what each provider (public id) could be paid now, where that is more than nothing."""
    rows = LedgerAccount.objects.filter(kind=Kind.PROVIDER_AVAILABLE).order_by("pk")
    return {row.owner: balance_of(row) for row in rows if balance_of(row) > 0}


def _owned(owner: str) -> QuerySet[LedgerAccount]:
    return LedgerAccount.objects.filter(owner=owner).order_by("pk")


def _of(rows: dict[str, LedgerAccount], kind: Kind) -> int:
    row = rows.get(kind)
    return balance_of(row) if row else 0
