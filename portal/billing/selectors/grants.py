"""Promotional credit, grant by grant."""

from dataclasses import dataclass
from datetime import datetime

from portal.accounts.models import Organization
from portal.billing.models.grants import PromoGrant
from portal.billing.rules import grants as rules
from portal.billing.rules.grants import Grant


def grants_of(*, organization: Organization, limit: int = 50) -> list[PromoGrant]:
    """Return the organization's grants, newest first."""
    return list(PromoGrant.objects.filter(organization=organization).order_by("-created_at", "-pk")[:limit])


@dataclass(frozen=True, slots=True)
class Left:
    """A grant and what is left of it now (nano)."""

    grant: PromoGrant
    rest_nano: int


def standing(*, organization: Organization, balance_nano: int, limit: int = 50) -> list[Left]:
    """Return the grants of which something is left where their account has so much, in the order they are spent."""
    rows = {row.pk: row for row in PromoGrant.objects.filter(organization=organization, rest_nano__gt=0)[:limit]}
    given = [Grant(number=row.pk, rest_nano=row.rest_nano, expires_at=row.expires_at) for row in rows.values()]
    settled = rules.spend(given, balance_nano=balance_nano)
    return [Left(rows[grant.number], grant.rest_nano) for grant in settled if grant.rest_nano]


def ended(*, now: datetime, limit: int = 500) -> list[int]:
    """Return the organizations that have something left of a grant whose time is over."""
    rows = PromoGrant.objects.filter(rest_nano__gt=0, expires_at__lte=now).order_by("organization_id")
    return list(rows.values_list("organization_id", flat=True).distinct()[:limit])


def ending(*, now: datetime, until: datetime, limit: int = 500) -> list[int]:
    """Return the grants that end between the two moments, have something left and were not warned of."""
    rows = PromoGrant.objects.filter(rest_nano__gt=0, warned_at=None, expires_at__gt=now, expires_at__lte=until)
    return list(rows.order_by("expires_at", "pk").values_list("pk", flat=True)[:limit])
