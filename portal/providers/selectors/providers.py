"""Providers as pages read them."""

from django.db.models import QuerySet

from portal.accounts.models import Organization
from portal.core.errors import NotFound
from portal.providers.models import Provider

MAX_PROVIDERS = 500


def provider_of(*, organization: Organization) -> Provider | None:
    """The organization's provider side, None where it has none."""
    return Provider.objects.filter(organization=organization).select_related("organization").first()


def provider(public_id: str) -> Provider:
    """One provider, for the operator. Raises NotFound."""
    found = Provider.objects.filter(public_id=public_id).select_related("organization").first()
    if found is None:
        raise NotFound(f"there is no provider {public_id!r}", param="provider")
    return found


def providers_of_operator(*, state: str = "") -> QuerySet[Provider]:
    """Every provider, newest first, for the operator."""
    found = Provider.objects.select_related("organization").order_by("-created_at", "-id")
    return (found.filter(state=state) if state else found)[:MAX_PROVIDERS]
