"""Which price and which share hold at a moment."""

from datetime import datetime

from django.conf import settings
from django.db.models import F, Q, QuerySet

from portal.billing.models import PriceVersion, ShareVersion, TierMembership
from portal.billing.rules import shares
from portal.billing.selectors.price_versions import PUBLIC, is_open, price_version, standing
from portal.core.money import BPS

version = price_version


def share_at(*, provider_id: int | None, at: datetime) -> int:
    """Return the provider's share in basis points at `at`; without a provider the pool's default."""
    return share_in_force(provider_id=provider_id, at=at).bps


def share_in_force(*, provider_id: int | None, at: datetime) -> shares.Share:
    """Return the share that holds at `at` and where it comes from: the provider's own, its tier, the pool's default."""
    past = ShareVersion.objects.filter(effective_from__lte=at).order_by("-effective_from", "-id")
    own = tier = None
    if provider_id is not None:
        own = past.filter(provider_id=provider_id).first()
        member = TierMembership.objects.filter(provider_id=provider_id, effective_from__lte=at)
        place = member.order_by("-effective_from", "-id").first()
        tier = past.filter(tier=place.tier_id).first() if place is not None and place.tier_id is not None else None
    usual = past.filter(provider=None, tier=None).first()
    return shares.share_of(
        own=own.share_bps if own else None,
        tier=tier.share_bps if tier else None,
        default=default_bps() if usual is None or usual.share_bps is None else usual.share_bps,
    )


def default_bps() -> int:
    """Return the share of the settings, which holds where the operator has set none."""
    return BPS - int(settings.PLATFORM_FEE_BPS)


def price_history(*, model_id: int, provider_id: int | None = None, limit: int = 100) -> QuerySet[PriceVersion]:
    """Return the model's public price versions, or the provider's private ones, newest first; canceled ones too."""
    rows = PriceVersion.objects.filter(_scope(provider_id), model_id=model_id).select_related("end")
    return rows.order_by("-effective_from", "-id")[:limit]


def public_history(*, model_id: int, limit: int = 100) -> QuerySet[PriceVersion]:
    """Return the model's public price versions that hold at some time, newest first."""
    return standing().filter(PUBLIC, model_id=model_id).order_by("-effective_from", "-id")[:limit]


def private_history(*, model_id: int, limit: int = 100) -> QuerySet[PriceVersion]:
    """Return the private price versions of all providers for the model, newest first."""
    rows = PriceVersion.objects.filter(model_id=model_id).exclude(provider=None).select_related("provider")
    return rows.order_by("-effective_from", "-id")[:limit]


def prices_at(*, at: datetime, provider_id: int | None = None) -> dict[int, PriceVersion]:
    """Return every model's public price version in force at `at`, or the provider's private one, by model id."""
    rows = standing().filter(_scope(provider_id), effective_from__lte=at)
    rows = rows.order_by("model_id", "-effective_from", "-id")
    return {row.model_id: row for row in rows.distinct("model_id")}


def all_upcoming(*, now: datetime, limit: int = 100) -> QuerySet[PriceVersion]:
    """Return public price versions that are not in force yet, soonest first."""
    rows = standing().filter(PUBLIC, effective_from__gt=now).select_related("model")
    return rows.order_by("effective_from", "id")[:limit]


def own_upcoming(*, organization_id: int, now: datetime, limit: int = 100) -> QuerySet[PriceVersion]:
    """Return what was agreed with the organization and is not in force yet, soonest first."""
    rows = standing().filter(organization=organization_id, effective_from__gt=now).select_related("model")
    return rows.order_by("effective_from", "id")[:limit]


def own_prices_at(*, organization_id: int, at: datetime) -> dict[int, PriceVersion]:
    """Return by model id what is agreed with the organization and in force at `at`."""
    rows = standing().filter(organization=organization_id, effective_from__lte=at).select_related("model")
    newest = rows.order_by("model_id", "-effective_from", "-id").distinct("model_id")
    return {row.model_id: row for row in newest if is_open(row, at=at)}


def overrides(*, limit: int = 200) -> QuerySet[PriceVersion]:
    """Return what was agreed with organizations, newest first; canceled and ended ones too."""
    rows = PriceVersion.objects.exclude(organization=None).select_related("organization", "model", "end")
    return rows.order_by("-effective_from", "-id")[:limit]


def overrides_in_force(*, at: datetime) -> set[int]:
    """Return the ids of the agreements that hold at `at`."""
    rows = standing().exclude(organization=None).filter(effective_from__lte=at)
    newest = rows.order_by("organization_id", "model_id", "-effective_from", "-id")
    return {row.pk for row in newest.distinct("organization_id", "model_id") if is_open(row, at=at)}


def private_prices(*, provider_id: int) -> dict[int, list[PriceVersion]]:
    """Return by model all versions of the provider's private prices, in the order in which they take effect."""
    found: dict[int, list[PriceVersion]] = {}
    for row in standing().filter(provider_id=provider_id).order_by("model_id", "effective_from", F("id")):
        found.setdefault(row.model_id, []).append(row)
    return found


def _scope(provider_id: int | None) -> Q:
    """Return what tells public versions from the private ones of a provider."""
    return PUBLIC if provider_id is None else Q(provider_id=provider_id)
