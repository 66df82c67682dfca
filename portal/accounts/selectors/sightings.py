"""From where keys were used, and what was unusual about it."""

from collections.abc import Mapping

from django.db.models import QuerySet

from portal.accounts.models import ApiKey, KeyAlert, KeySighting, Organization


def last_places(*, organization: Organization) -> Mapping[int, KeySighting]:
    """Return by key id where each of the organization's keys was used last."""
    rows = KeySighting.objects.filter(key__organization=organization)
    return {row.key_id: row for row in rows.order_by("key_id", "-last_seen_at", "-pk").distinct("key_id")}


def places_of(*, key: ApiKey, limit: int = 50) -> QuerySet[KeySighting]:
    """Return where the key was used from, the latest first."""
    return KeySighting.objects.filter(key=key).order_by("-last_seen_at", "-pk")[:limit]


def alerts_of(*, key: ApiKey, limit: int = 20) -> QuerySet[KeyAlert]:
    """Return what was unusual about the key's use, the latest first."""
    return KeyAlert.objects.filter(key=key).order_by("-created_at", "-pk")[:limit]


def recent_alerts(*, organization: Organization, limit: int = 10) -> QuerySet[KeyAlert]:
    """Return what was unusual about the organization's keys, the latest first."""
    rows = KeyAlert.objects.filter(key__organization=organization).select_related("key")
    return rows.order_by("-created_at", "-pk")[:limit]
