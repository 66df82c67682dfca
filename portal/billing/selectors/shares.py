"""Providers' shares over time: own ones, tiers and who is in them, and the pool's default."""

from datetime import datetime

from django.db.models import Q, QuerySet

from portal.billing.models import ShareTier, ShareVersion, TierMembership
from portal.billing.rules import shares
from portal.billing.selectors.prices import default_bps

_MOST = 1000


def share_history(*, limit: int = 100) -> QuerySet[ShareVersion]:
    """Return share versions of all providers, tiers and the pool, newest first."""
    return ShareVersion.objects.select_related("provider", "tier").order_by("-effective_from", "-id")[:limit]


def tiers(*, limit: int = 100) -> QuerySet[ShareTier]:
    """Return the tiers by name."""
    return ShareTier.objects.order_by("name")[:limit]


def tier_shares_at(*, at: datetime) -> dict[int, int | None]:
    """Return each tier's share in force at `at`, None where it has none."""
    rows = ShareVersion.objects.exclude(tier=None).filter(effective_from__lte=at)
    newest = rows.order_by("tier_id", "-effective_from", "-id").distinct("tier_id")
    return {row.tier_id: row.share_bps for row in newest if row.tier_id is not None}


def members_at(*, at: datetime) -> list[TierMembership]:
    """Return which provider is in which tier at `at`, by tier and provider."""
    rows = TierMembership.objects.filter(effective_from__lte=at)
    newest = rows.order_by("provider_id", "-effective_from", "-id").distinct("provider_id")
    found = TierMembership.objects.filter(pk__in=newest.values("pk")).exclude(tier=None)
    return list(found.select_related("provider", "tier").order_by("tier__name", "provider__legal_name", "pk")[:_MOST])


def history_of(*, provider_id: int) -> list[shares.Step]:
    """Return every step of the provider's share, oldest first, those to come too."""
    moves = list(
        TierMembership.objects.filter(provider_id=provider_id).select_related("tier").order_by("effective_from")
    )
    names = {row.tier_id: row.tier.name for row in moves if row.tier is not None}
    rows = ShareVersion.objects.filter(Q(provider_id=provider_id) | Q(tier__in=names) | Q(provider=None, tier=None))
    found = list(rows.order_by("effective_from", "id")[:_MOST])
    return shares.history(
        own=[row for row in found if row.provider_id is not None],
        moves=[(row.effective_from, row.tier.name if row.tier else "") for row in moves],
        tiers={name: [row for row in found if row.tier_id == pk] for pk, name in names.items()},
        default=[row for row in found if row.provider_id is None and row.tier_id is None],
        fallback_bps=default_bps(),
    )
