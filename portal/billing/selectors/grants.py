"""Promotional credit, grant by grant."""

from datetime import datetime

from portal.accounts.models import Organization
from portal.billing.models.grants import PromoGrant


def grants_of(*, organization: Organization, limit: int = 50) -> list[PromoGrant]:
    """Return the organization's grants, newest first."""
    return list(PromoGrant.objects.filter(organization=organization).order_by("-created_at", "-pk")[:limit])


def grants_left(*, organization: Organization, limit: int = 50) -> list[PromoGrant]:
    """Return the grants of which something was left when they were last looked at, what expires first first."""
    rows = PromoGrant.objects.filter(organization=organization, rest_nano__gt=0)
    return list(rows.order_by("expires_at", "pk")[:limit])


def ended(*, now: datetime, limit: int = 500) -> list[int]:
    """Return the organizations that have something left of a grant whose time is over."""
    rows = PromoGrant.objects.filter(rest_nano__gt=0, expires_at__lte=now).order_by("organization_id")
    return list(rows.values_list("organization_id", flat=True).distinct()[:limit])


def ending(*, now: datetime, until: datetime, limit: int = 500) -> list[int]:
    """Return the grants that end between the two moments, have something left and were not warned of."""
    rows = PromoGrant.objects.filter(rest_nano__gt=0, warned_at=None, expires_at__gt=now, expires_at__lte=until)
    return list(rows.order_by("expires_at", "pk").values_list("pk", flat=True)[:limit])
