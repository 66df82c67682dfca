"""What an organization used and was charged, from the daily sums of posted usage."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from django.db.models import QuerySet, Sum

from portal.accounts.models import ApiKey
from portal.billing.models import PriceVersion, SpendDay
from portal.billing.selectors import price_versions
from portal.catalog.models import CatalogModel
from portal.metering.models import UsageRecord

GROUPS: Mapping[str, str] = {"model": "model_id", "key": "api_key_id"}


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums of one cell: a day of a group, a group, or everything. `group_id` names the model or key."""

    day: date | None
    group_id: int | None
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    amount_nano: int

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


_SUMS = {
    "requests": Sum("requests"),
    "prompt_tokens": Sum("prompt_tokens"),
    "cached_tokens": Sum("cached_tokens"),
    "completion_tokens": Sum("completion_tokens"),
    "amount_nano": Sum("charge_nano"),
}


def usage_by_day(*, organization_id: int, first: date, last: date, group: str) -> list[Usage]:
    """Return one row a day and group (a key of GROUPS), days ascending, both ends included."""
    column = GROUPS[group]
    rows = _days(organization_id, first, last).values("day", column).annotate(**_SUMS).order_by("day", column)
    return [Usage(group_id=row.pop(column), **row) for row in rows]


def detail(*, organization_id: int, first: date, last: date, limit: int = 100_000) -> list[SpendDay]:
    """Return the daily sums themselves, by day, model and key, for an export."""
    return list(_days(organization_id, first, last).order_by("day", "model_id", "api_key_id")[:limit])


def spent(*, organization_id: int, first: date, last: date) -> int:
    """Return what the organization was charged in these days, both ends included."""
    return int(_days(organization_id, first, last).aggregate(total=Sum("charge_nano", default=0))["total"])


def model_names(ids: set[int] | None = None) -> dict[int, str]:
    """Return the public ids of these models, or of all."""
    rows = CatalogModel.objects.all() if ids is None else CatalogModel.objects.filter(pk__in=ids)
    return dict(rows.values_list("pk", "public_id"))


def key_names(*, organization_id: int, ids: set[int] | None = None) -> dict[int, str]:
    """Return the names of these keys of the organization, or of all, with their public ids where two share a name."""
    rows = ApiKey.objects.filter(organization=organization_id)
    keys = list((rows if ids is None else rows.filter(pk__in=ids)).order_by("pk"))
    names = [key.name for key in keys]
    return {key.pk: f"{key.name} ({key.public_id})" if names.count(key.name) > 1 else key.name for key in keys}


@dataclass(frozen=True, slots=True)
class Priced:
    """What was used of one model at one price version."""

    model: str
    label: str
    price: PriceVersion
    requests: int
    charge_nano: int


def by_price(*, organization_id: int, first: date, last: date, limit: int = 200) -> list[Priced]:
    """Return the organization's usage of these days by model and price version, both ends included."""
    rows = _days(organization_id, first, last).values_list("model_id", "price_version_id")
    sums = list(rows.annotate(Sum("requests"), Sum("charge_nano")).order_by("model_id", "price_version_id")[:limit])
    known = price_versions.versions({row[1] for row in sums})
    names = model_names({row[0] for row in sums})
    return [
        Priced(names.get(model, str(model)), price_versions.label_of(known[price]), known[price], requests, charge)
        for model, price, requests, charge in sums
        if price in known
    ]


def latest_requests(*, organization_id: int, limit: int = 25) -> QuerySet[UsageRecord]:
    """Return the organization's last attempts, newest first, without their routing."""
    rows = UsageRecord.objects.filter(organization_id=organization_id).defer("routing")
    return rows.order_by("-closed_at", "request_id", "attempt")[:limit]


def _days(organization_id: int, first: date, last: date) -> QuerySet[SpendDay]:
    return SpendDay.objects.filter(organization_id=organization_id, day__gte=first, day__lte=last)
