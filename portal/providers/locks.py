"""The one way to lock a provider."""

from portal.core.errors import NotFound
from portal.providers.models import Provider


def provider(public_id: str) -> Provider:
    """Lock the provider for this transaction. Raises NotFound."""
    try:
        return Provider.objects.select_for_update(of=("self",)).select_related("organization").get(public_id=public_id)
    except Provider.DoesNotExist:
        raise NotFound(f"there is no provider {public_id!r}", param="provider") from None
