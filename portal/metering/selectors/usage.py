"""Usage records for pages and the API: always of one organization or provider, bounded, in a unique order."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID

from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import TruncDate

from portal.metering.models import UsageRecord

_DIMENSIONS = frozenset({"day", "model_id", "api_key_id", "node_id"})
_LONGEST = timedelta(days=92)
_CHUNK = 2_000
_SUMMED = ("prompt_tokens", "cached_tokens", "completion_tokens", "charge_nano", "provider_nano")


def by_request(*, organization_id: int, request_id: UUID) -> list[UsageRecord]:
    """Return the attempts of one request of this organization, in order; empty where it has none."""
    return list(UsageRecord.objects.filter(request_id=request_id, organization_id=organization_id).order_by("attempt"))


def attempts_of_provider(*, provider_id: int, request_id: UUID) -> list[UsageRecord]:
    """Return those attempts of one request that went to the provider's nodes, in order."""
    rows = UsageRecord.objects.filter(request_id=request_id, provider_id=provider_id)
    return list(rows.defer("routing").order_by("attempt"))


def each(
    *, since: date, until: date, organization_id: int | None = None, provider_id: int | None = None
) -> Iterator[UsageRecord]:
    """Yield one owner's records that closed on the days from `since` to `until` (UTC, both included, at most 92).

    They come a few thousand at a time, in the order of closing. Raises ValueError without exactly one owner.
    """
    if (organization_id is None) is (provider_id is None):
        raise ValueError("an export is of one organization or of one provider")
    owner = {"organization_id": organization_id} if provider_id is None else {"provider_id": provider_id}
    last = datetime.combine(until + timedelta(days=1), time.min, UTC)
    first = max(datetime.combine(since, time.min, UTC), last - _LONGEST)
    rows = UsageRecord.objects.filter(closed_at__gte=first, closed_at__lt=last, **owner)
    # A request opens at most a day before it closes: the partitions to read follow from that.
    rows = rows.filter(opened_on__gte=first.date() - timedelta(days=1), opened_on__lte=until)
    return rows.defer("routing").order_by("closed_at", "request_id", "attempt").iterator(chunk_size=_CHUNK)


def of_organization(
    *, organization_id: int, before: tuple[datetime, UUID] | None = None, limit: int = 100
) -> QuerySet[UsageRecord]:
    """Return the organization's newest attempts; `before` is (closed_at, request_id) of the last row already shown."""
    return _page(UsageRecord.objects.filter(organization_id=organization_id), before, limit)


def of_provider(
    *, provider_id: int, before: tuple[datetime, UUID] | None = None, limit: int = 100
) -> QuerySet[UsageRecord]:
    """Return the provider's newest attempts; `before` as above."""
    return _page(UsageRecord.objects.filter(provider_id=provider_id), before, limit)


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Attempts, billed tokens and money of one group; `group` holds the values of the dimensions asked for."""

    group: tuple[object, ...]
    attempts: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    charge_nano: int
    provider_nano: int


def sums_of_organization(
    *, organization_id: int, since: datetime, until: datetime, by: tuple[str, ...] = ("day",)
) -> list[UsageSum]:
    """Return sums in `[since, until)` (at most 92 days) by `day` of closing, `model_id` and `api_key_id`, in order."""
    return _sums(UsageRecord.objects.filter(organization_id=organization_id), since, until, by)


def sums_of_provider(
    *, provider_id: int, since: datetime, until: datetime, by: tuple[str, ...] = ("day",)
) -> list[UsageSum]:
    """Return sums in `[since, until)` (at most 92 days) by `day` of closing, `model_id` and `node_id`, in order."""
    return _sums(UsageRecord.objects.filter(provider_id=provider_id), since, until, by)


def _sums(rows: QuerySet[UsageRecord], since: datetime, until: datetime, by: tuple[str, ...]) -> list[UsageSum]:
    if unknown := set(by) - _DIMENSIONS:
        raise ValueError(f"usage cannot be summed by {', '.join(sorted(unknown))}")
    since = max(since, until - _LONGEST)
    # A request opens at most a day before it closes: the partitions to read follow from that.
    found = (
        rows.filter(closed_at__gte=since, closed_at__lt=until)
        .filter(opened_on__gte=(since - timedelta(days=1)).date(), opened_on__lte=until.date())
        .annotate(day=TruncDate("closed_at", tzinfo=UTC))
        .order_by(*by)
        .values_list(*by)
        .annotate(
            Count("request_id"),
            *(Sum(name, default=0) for name in _SUMMED),
        )
    )
    width = len(by)
    return [UsageSum(tuple(row[:width]), *row[width:]) for row in found]


def _page(rows: QuerySet[UsageRecord], before: tuple[datetime, UUID] | None, limit: int) -> QuerySet[UsageRecord]:
    if before is not None:
        closed_at, request_id = before
        rows = rows.filter(closed_at__lte=closed_at).exclude(closed_at=closed_at, request_id__gte=request_id)
    return rows.defer("routing").order_by("-closed_at", "-request_id", "-attempt")[:limit]
