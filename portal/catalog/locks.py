"""The one way to lock a row of the catalogue."""

from portal.catalog.models import CatalogModel
from portal.core.errors import NotFound


def model(public_id: str) -> CatalogModel:
    """Lock the model for this transaction. Raises NotFound."""
    try:
        return CatalogModel.objects.select_for_update(of=("self",)).get(public_id=public_id)
    except CatalogModel.DoesNotExist:
        raise NotFound(f"there is no model {public_id!r}", param="model") from None
