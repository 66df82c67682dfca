"""Prices and shares as the gateway's snapshot takes them."""

from datetime import datetime

from django.conf import settings
from django.db import connection

from portal.billing.models import PriceVersion, ShareVersion
from portal.core.money import BPS

# Versions are append-only, but one becomes valid by the clock alone.
_DIGEST = """
    SELECT (SELECT count(*) FROM billing_priceversion), (SELECT count(*) FROM billing_shareversion),
           (SELECT count(*) FROM billing_shareversion WHERE effective_from <= %s)
"""


def prices_digest(*, at: datetime) -> tuple[int, int, int]:
    """Return numbers that differ whenever a version was added or a share became valid."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST, [at])
        first, second, third = cursor.fetchone()
        return first, second, third


def prices_from(*, at: datetime) -> dict[int, list[PriceVersion]]:
    """Return by model the public version in force at `at` and those that come later, in order."""
    found: dict[int, list[PriceVersion]] = {}
    for row in PriceVersion.objects.filter(provider=None).order_by("model_id", "effective_from"):
        versions = found.setdefault(row.model_id, [])
        if versions and row.effective_from <= at:
            versions.clear()
        versions.append(row)
    return found


def private_prices() -> dict[tuple[int, int], list[PriceVersion]]:
    """Return every private version by provider and model, in the order in which they take effect."""
    found: dict[tuple[int, int], list[PriceVersion]] = {}
    for row in PriceVersion.objects.exclude(provider=None).order_by("provider_id", "model_id", "effective_from"):
        if row.provider_id is not None:
            found.setdefault((row.provider_id, row.model_id), []).append(row)
    return found


def shares_at(*, at: datetime) -> tuple[dict[int, int], int]:
    """Return the shares in basis points that hold at `at`: of providers with one of their own, and of all others."""
    newest: dict[int | None, int] = {}
    for row in ShareVersion.objects.filter(effective_from__lte=at).order_by("effective_from", "id"):
        newest[row.provider_id] = row.share_bps
    fallback = newest.pop(None, BPS - int(settings.PLATFORM_FEE_BPS))
    return {provider: share for provider, share in newest.items() if provider is not None}, fallback
