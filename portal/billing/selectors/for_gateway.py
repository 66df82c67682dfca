"""Prices and shares as the gateway's snapshot takes them."""

from collections.abc import Iterable
from datetime import datetime

from django.db import connection

from portal.billing.models import PriceVersion, ShareVersion, TierMembership
from portal.billing.rules.shares import share_of
from portal.billing.selectors.price_versions import PUBLIC, is_open, standing
from portal.billing.selectors.prices import default_bps

# Versions, ends and memberships are append-only, but a share becomes valid by the clock alone.
_DIGEST = """
    SELECT (SELECT count(*) FROM billing_priceversion), (SELECT count(*) FROM billing_priceend),
           (SELECT count(*) FROM billing_shareversion), (SELECT count(*) FROM billing_tiermembership),
           (SELECT count(*) FROM billing_shareversion WHERE effective_from <= %(at)s),
           (SELECT count(*) FROM billing_tiermembership WHERE effective_from <= %(at)s)
"""


def prices_digest(*, at: datetime) -> tuple[int, ...]:
    """Return numbers that differ whenever a version or an end was added or a share became valid."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST, {"at": at})
        return tuple(cursor.fetchone())


def prices_from(*, at: datetime) -> dict[int, list[PriceVersion]]:
    """Return by model the public version in force at `at` and those that come later, in order."""
    rows = standing().filter(PUBLIC).order_by("model_id", "effective_from", "id")
    return {model: _from(versions, at) for model, versions in _grouped(rows).items()}


def own_prices_from(*, at: datetime) -> dict[tuple[int, int], list[PriceVersion]]:
    """Return by organization and model what is agreed with it, in force at `at` or later, in order."""
    found: dict[tuple[int, int], list[PriceVersion]] = {}
    rows = standing().exclude(organization=None).order_by("organization_id", "model_id", "effective_from", "id")
    for row in rows:
        if row.organization_id is not None:
            found.setdefault((row.organization_id, row.model_id), []).append(row)
    kept = {whose: _from(versions, at) for whose, versions in found.items()}
    return {whose: versions for whose, versions in kept.items() if len(versions) > 1 or is_open(versions[0], at=at)}


def private_prices() -> dict[tuple[int, int], list[PriceVersion]]:
    """Return every private version by provider and model, in the order in which they take effect."""
    found: dict[tuple[int, int], list[PriceVersion]] = {}
    rows = standing().exclude(provider=None).order_by("provider_id", "model_id", "effective_from", "id")
    for row in rows:
        if row.provider_id is not None:
            found.setdefault((row.provider_id, row.model_id), []).append(row)
    return found


def shares_at(*, at: datetime) -> tuple[dict[int, int], int]:
    """Return the shares in basis points that hold at `at`: of providers with one of their own or a tier's, and of all
    others."""
    own: dict[int, int | None] = {}
    tiers: dict[int, int | None] = {}
    usual = default_bps()
    for row in ShareVersion.objects.filter(effective_from__lte=at).order_by("effective_from", "id"):
        if row.provider_id is not None:
            own[row.provider_id] = row.share_bps
        elif row.tier_id is not None:
            tiers[row.tier_id] = row.share_bps
        elif row.share_bps is not None:
            usual = row.share_bps
    places: dict[int, int | None] = {}
    for member in TierMembership.objects.filter(effective_from__lte=at).order_by("effective_from", "id"):
        places[member.provider_id] = member.tier_id
    found = {
        provider: share_of(own=own.get(provider), tier=_share_of_tier(tiers, places.get(provider)), default=usual).bps
        for provider in {*own, *places}
    }
    return found, usual


def _share_of_tier(tiers: dict[int, int | None], tier_id: int | None) -> int | None:
    return tiers.get(tier_id) if tier_id is not None else None


def _grouped(rows: Iterable[PriceVersion]) -> dict[int, list[PriceVersion]]:
    found: dict[int, list[PriceVersion]] = {}
    for row in rows:
        found.setdefault(row.model_id, []).append(row)
    return found


def _from(versions: list[PriceVersion], at: datetime) -> list[PriceVersion]:
    """Leave out what newer versions have replaced by `at`."""
    begun = sum(1 for row in versions if row.effective_from <= at)
    return versions[max(0, begun - 1) :]
