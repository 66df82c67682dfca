"""The pool's own figures: what customers were charged, what providers earned of it, what the pool owes to whom."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from django.db.models import Case, F, Sum, When

from portal.billing.models import EarningDay, SpendDay
from portal.billing.models.ledger import LedgerAccount
from portal.billing.rules.accounts import Kind


@dataclass(frozen=True, slots=True)
class PoolDay:
    """One UTC day of the whole pool."""

    day: date
    charge_nano: int
    earned_nano: int


@dataclass(frozen=True, slots=True)
class Liabilities:
    """What the pool owes: credit not yet used, and earnings not yet paid."""

    customer_credit_nano: int
    promo_credit_nano: int
    provider_nano: int


def pool_days(*, first: date, last: date) -> list[PoolDay]:
    """Return one row for each day from `first` to `last`, both included."""
    charged = _by_day(SpendDay.objects.filter(day__range=(first, last)).values_list("day").annotate(Sum("charge_nano")))
    earned = _by_day(
        EarningDay.objects.filter(day__range=(first, last)).values_list("day").annotate(Sum("earned_nano"))
    )
    days = [first + timedelta(days=offset) for offset in range((last - first).days + 1)]
    return [PoolDay(day, charged.get(day, 0), earned.get(day, 0)) for day in days]


def liabilities() -> Liabilities:
    """Return the sums over all customers and providers."""
    owed = F("credits") - F("debits")
    rows = LedgerAccount.objects.filter(kind__in=[*_CUSTOMER, *_PROVIDER]).values_list("kind")
    sums = {kind: int(total) for kind, total in rows.annotate(total=Sum(Case(When(is_debit_normal=False, then=owed))))}
    return Liabilities(
        customer_credit_nano=sums.get(Kind.CUSTOMER_CREDIT, 0),
        promo_credit_nano=sums.get(Kind.PROMO_CREDIT, 0),
        provider_nano=sum(sums.get(kind, 0) for kind in _PROVIDER),
    )


_CUSTOMER = (Kind.CUSTOMER_CREDIT, Kind.PROMO_CREDIT)
_PROVIDER = (
    Kind.PROVIDER_PENDING,
    Kind.PROVIDER_RESERVE,
    Kind.PROVIDER_AVAILABLE,
    Kind.PAYOUT_CLEARING,
    Kind.PROVIDER_HELD,
)


def _by_day(rows: Iterable[tuple[date, int]]) -> dict[date, int]:
    return {day: int(total) for day, total in rows}
