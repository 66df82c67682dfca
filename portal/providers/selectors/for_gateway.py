"""Providers as the gateway's snapshot takes them."""

from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from portal.providers.models import Provider, ProviderKind, ProviderState
from portal.providers.rules.earning import may_earn

_DIGEST = "SELECT count(*) || ':' || coalesce(sum(hashtextextended(xmin::text, id)), 0) FROM providers_provider"


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """Whose nodes these are, whether they may be used at all, and whether for work that earns."""

    id: int
    organization_id: int
    is_house: bool
    is_usable: bool
    may_earn: bool = True


def providers_digest() -> str:
    """Return a text that differs whenever a provider was written."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST)
        return str(cursor.fetchone()[0])


def providers() -> dict[int, ProviderRow]:
    """Return all providers by id."""
    return {
        row.pk: ProviderRow(
            id=row.pk,
            organization_id=row.organization_id,
            is_house=row.kind == ProviderKind.HOUSE,
            is_usable=row.state == ProviderState.APPROVED,
            may_earn=may_earn(
                is_house=row.kind == ProviderKind.HOUSE,
                is_identified=row.is_identified,
                is_held_full=row.is_held_full,
                earns_before_identity=settings.EARN_BEFORE_KYC,
            ),
        )
        for row in Provider.objects.order_by("id")
    }
