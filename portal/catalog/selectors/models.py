"""Catalogue models as pages and deployments read them."""

from django.db.models import QuerySet

from portal.catalog.models import CatalogModel, ModelState
from portal.core.errors import NotFound

MAX_MODELS = 500


def models_of_operator() -> QuerySet[CatalogModel]:
    """Every model, newest first."""
    return CatalogModel.objects.order_by("-created_at", "-id")[:MAX_MODELS]


def offered_models() -> QuerySet[CatalogModel]:
    """The models that customers may ask for."""
    states = [ModelState.ACTIVE, ModelState.DEPRECATED]
    return CatalogModel.objects.filter(state__in=states).order_by("public_id")[:MAX_MODELS]


def deployable_models() -> QuerySet[CatalogModel]:
    """The models that may be deployed anew."""
    return CatalogModel.objects.filter(state=ModelState.ACTIVE).order_by("public_id")[:MAX_MODELS]


def model_by_key(key: int) -> CatalogModel:
    """One model by its row's key, for the operator's pages (ids hold slashes). Raises NotFound."""
    found = CatalogModel.objects.filter(pk=key).first()
    if found is None:
        raise NotFound("there is no such model", param="model")
    return found


def model(public_id: str) -> CatalogModel:
    """One model. Raises NotFound."""
    found = CatalogModel.objects.filter(public_id=public_id).first()
    if found is None:
        raise NotFound(f"there is no model {public_id!r}", param="model")
    return found
