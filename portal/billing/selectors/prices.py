"""Which price and which share hold at a moment."""

from datetime import datetime

from django.conf import settings
from django.db.models import Q, QuerySet

from portal.billing.errors import PriceMissing
from portal.billing.models import PriceVersion, ShareVersion
from portal.core.money import BPS


def price_at(*, model_id: int, at: datetime) -> PriceVersion:
    """Return the model's public price version in force at `at`. Raises PriceMissing."""
    rows = PriceVersion.objects.filter(model_id=model_id, provider=None, effective_from__lte=at)
    found = rows.order_by("-effective_from").first()
    if found is None:
        raise PriceMissing(f"model {model_id} has no price at {at.isoformat()}", fix="set a price for it")
    return found


def share_at(*, provider_id: int | None, at: datetime) -> int:
    """Return the provider's share in basis points at `at`: its own, else the pool's default, else the settings'."""
    past = ShareVersion.objects.filter(effective_from__lte=at).order_by("-effective_from", "-id")
    own = past.filter(provider_id=provider_id).first() if provider_id is not None else None
    found = own or past.filter(provider=None).first()
    return found.share_bps if found else BPS - int(settings.PLATFORM_FEE_BPS)


def price_history(*, model_id: int, provider_id: int | None = None, limit: int = 100) -> QuerySet[PriceVersion]:
    """Return the model's public price versions, or the provider's private ones, newest first."""
    return PriceVersion.objects.filter(_scope(provider_id), model_id=model_id).order_by("-effective_from")[:limit]


def share_history(*, limit: int = 100) -> QuerySet[ShareVersion]:
    """Return share versions of all providers and the pool, newest first."""
    return ShareVersion.objects.select_related("provider").order_by("-effective_from", "-id")[:limit]


def version(*, price_version_id: int) -> PriceVersion | None:
    """Return one price version."""
    return PriceVersion.objects.filter(pk=price_version_id).first()


def private_history(*, model_id: int, limit: int = 100) -> QuerySet[PriceVersion]:
    """Return the private price versions of all providers for the model, newest first."""
    rows = PriceVersion.objects.filter(model_id=model_id).exclude(provider=None).select_related("provider")
    return rows.order_by("-effective_from", "-id")[:limit]


def prices_at(*, at: datetime, provider_id: int | None = None) -> dict[int, PriceVersion]:
    """Return every model's public price version in force at `at`, or the provider's private one, by model id."""
    rows = PriceVersion.objects.filter(_scope(provider_id), effective_from__lte=at)
    rows = rows.order_by("model_id", "-effective_from")
    return {row.model_id: row for row in rows.distinct("model_id")}


def all_upcoming(*, now: datetime, limit: int = 100) -> QuerySet[PriceVersion]:
    """Return public price versions that are not in force yet, soonest first."""
    rows = PriceVersion.objects.filter(effective_from__gt=now, provider=None).select_related("model")
    return rows.order_by("effective_from", "id")[:limit]


def private_prices(*, provider_id: int) -> dict[int, list[PriceVersion]]:
    """Return by model all versions of the provider's private prices, in the order in which they take effect."""
    found: dict[int, list[PriceVersion]] = {}
    for row in PriceVersion.objects.filter(provider_id=provider_id).order_by("model_id", "effective_from"):
        found.setdefault(row.model_id, []).append(row)
    return found


def _scope(provider_id: int | None) -> Q:
    """Return what tells public versions, without a provider, from the private ones of a provider."""
    return Q(provider=None) if provider_id is None else Q(provider_id=provider_id)
