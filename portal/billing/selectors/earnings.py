"""What a provider's nodes served and earned, from the daily sums of posted usage."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from django.db.models import F, QuerySet, Sum

from portal.billing.models import EarningDay, EarningMaturity, LedgerTransfer, ReservedEarning, UsagePosting
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import prices
from portal.billing.selectors.spend import Usage
from portal.metering.models import UsageRecord
from portal.nodes.models import Node

GROUPS: Mapping[str, str] = {"model": "model_id", "node": "node_id"}

_SUMS = {
    "requests": Sum("requests"),
    "prompt_tokens": Sum("prompt_tokens"),
    "cached_tokens": Sum("cached_tokens"),
    "completion_tokens": Sum("completion_tokens"),
    "amount_nano": Sum("earned_nano"),
}


@dataclass(frozen=True, slots=True)
class Totals:
    """What customers were charged for a provider's work, and what of it the provider earned."""

    requests: int
    charge_nano: int
    earned_nano: int


@dataclass(frozen=True, slots=True)
class Example:
    """One real request with the price and share it was rated by."""

    record: UsageRecord
    earned_nano: int
    withheld: str
    prompt_nano_per_mtok: int
    cached_nano_per_mtok: int
    completion_nano_per_mtok: int
    request_nano: int


@dataclass(frozen=True, slots=True)
class Maturing:
    """Earnings that become available on one day."""

    day: date
    amount_nano: int


def earnings_by_day(*, provider_id: int, first: date, last: date, group: str) -> list[Usage]:
    """Return one row a day and group (a key of GROUPS), days ascending, both ends included."""
    column = GROUPS[group]
    rows = _days(provider_id, first, last).values("day", column).annotate(**_SUMS).order_by("day", column)
    return [Usage(group_id=row.pop(column), **row) for row in rows]


def detail(*, provider_id: int, first: date, last: date, limit: int = 100_000) -> list[EarningDay]:
    """Return the daily sums themselves, by day, node and model, for an export."""
    return list(_days(provider_id, first, last).order_by("day", "node_id", "model_id")[:limit])


def totals(*, provider_id: int, first: date, last: date) -> Totals:
    """Return what these days came to, both ends included."""
    sums = _days(provider_id, first, last).aggregate(
        requests=Sum("requests", default=0), charge=Sum("charge_nano", default=0), earned=Sum("earned_nano", default=0)
    )
    return Totals(requests=sums["requests"], charge_nano=int(sums["charge"]), earned_nano=int(sums["earned"]))


def node_names(*, provider_id: int, ids: set[int] | None = None) -> dict[int, str]:
    """Return the names of these nodes of the provider, or of all."""
    rows = Node.objects.filter(provider=provider_id)
    return dict((rows if ids is None else rows.filter(pk__in=ids)).values_list("pk", "name"))


def node_ids(*, provider_id: int) -> dict[int, str]:
    """Return the public ids of the provider's nodes."""
    return dict(Node.objects.filter(provider=provider_id).values_list("pk", "public_id"))


def last_example(*, provider_id: int) -> Example | None:
    """Return the provider's last posted request with its price, to show the formula with real numbers."""
    records = UsageRecord.objects.filter(provider_id=provider_id, charge_nano__gt=0).defer("routing")
    for record in records.order_by("-closed_at", "request_id")[:5]:
        posting = UsagePosting.objects.filter(
            opened_on=record.opened_on, request_id=record.request_id, attempt=record.attempt
        ).first()
        price = prices.version(price_version_id=record.price_version_id)
        if posting is not None and price is not None:
            return Example(
                record=record,
                earned_nano=posting.provider_nano,
                withheld=posting.withheld,
                prompt_nano_per_mtok=price.prompt_nano_per_mtok,
                cached_nano_per_mtok=price.cached_nano_per_mtok,
                completion_nano_per_mtok=price.completion_nano_per_mtok,
                request_nano=price.request_nano,
            )
    return None


def maturing(*, provider: str, limit: int = 60) -> list[Maturing]:
    """Return what matures on which UTC day, soonest first."""
    rows = (
        EarningMaturity.objects.filter(provider=provider, matured_tx=None)
        .values("matures_at__date")
        .annotate(amount=Sum(F("amount_nano") - F("clawed_nano")))
        .order_by("matures_at__date")[:limit]
    )
    return [Maturing(day=row["matures_at__date"], amount_nano=int(row["amount"])) for row in rows]


def kept_back(*, provider: str, limit: int = 60) -> list[Maturing]:
    """Return which part of the reserve is released on which UTC day, soonest first."""
    rows = (
        ReservedEarning.objects.filter(provider=provider, released_tx=None)
        .values("release_at__date")
        .annotate(amount=Sum(F("amount_nano") - F("clawed_nano")))
        .order_by("release_at__date")[:limit]
    )
    return [Maturing(day=row["release_at__date"], amount_nano=int(row["amount"])) for row in rows]


def paid_out(*, provider: str) -> int:
    """Return what was ever sent to the provider, less what came back."""
    code = chart.code(Kind.PAYOUT_CLEARING, provider)
    sent = LedgerTransfer.objects.filter(debit_account__code=code, credit_account__kind=Kind.STRIPE_BALANCE)
    back = LedgerTransfer.objects.filter(
        debit_account__kind=Kind.STRIPE_BALANCE,
        credit_account__code=chart.code(Kind.PROVIDER_AVAILABLE, provider),
    )
    return int(sent.aggregate(sum=Sum("amount", default=0))["sum"]) - int(
        back.aggregate(sum=Sum("amount", default=0))["sum"]
    )


def _days(provider_id: int, first: date, last: date) -> QuerySet[EarningDay]:
    return EarningDay.objects.filter(provider_id=provider_id, day__gte=first, day__lte=last)
