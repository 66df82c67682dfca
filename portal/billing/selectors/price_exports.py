"""Price versions as a document to keep: all that one party's usage can have been rated with."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from poolhouse_common.exports import FORMAT, PRICES

from portal.billing.models import EarningDay, PriceVersion, SpendDay
from portal.core.money import decimal_text
from portal.metering.models import UsageRecord

_DAY = timedelta(days=1)
_NOT_BOOKED = timedelta(hours=1)


def for_customer(*, organization_id: int, currency: str, now: datetime) -> dict[str, Any]:
    """Return the public prices, the organization's own, and those of private nodes that it used."""
    own = Q(organization_id=organization_id)
    return _document(_public() | own | _used(SpendDay.objects.all(), now, organization_id=organization_id), currency)


def for_provider(*, provider_id: int, currency: str, now: datetime) -> dict[str, Any]:
    """Return the public prices, those of the provider's private nodes, and all that its served usage was rated with."""
    own = Q(provider_id=provider_id)
    return _document(_public() | own | _used(EarningDay.objects.all(), now, provider_id=provider_id), currency)


def _public() -> Q:
    return Q(provider=None, organization=None)


def _used(sums: QuerySet[Any], now: datetime, **owner: int) -> Q:
    """Select what the sums name, and what was served a moment ago and is not booked yet."""
    recent = UsageRecord.objects.filter(opened_on__gte=(now - _DAY).date(), closed_at__gte=now - _NOT_BOOKED, **owner)
    names = [
        set(rows.order_by().values_list("price_version_id", flat=True).distinct())
        for rows in (sums.filter(**owner), recent)
    ]
    return Q(pk__in=set.union(*names))


def _document(wanted: Q, currency: str) -> dict[str, Any]:
    rows = PriceVersion.objects.filter(wanted).select_related("model").order_by("model__public_id", "id")
    return {"document": PRICES, "format": FORMAT, "currency": currency, "prices": [_row(row) for row in rows]}


def _row(row: PriceVersion) -> dict[str, Any]:
    scope = "private" if row.provider_id else "own" if row.organization_id else "public"
    return {
        "price": row.pk,
        "model": row.model.public_id,
        "version": row.version,
        "scope": scope,
        "prompt_per_mtok": decimal_text(row.prompt_nano_per_mtok),
        "cached_per_mtok": decimal_text(row.cached_nano_per_mtok),
        "completion_per_mtok": decimal_text(row.completion_nano_per_mtok),
        "per_request": decimal_text(row.request_nano),
        "effective_from": row.effective_from.isoformat(),
    }
