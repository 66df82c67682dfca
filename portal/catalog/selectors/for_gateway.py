"""Models and their artefacts as the gateway takes them."""

from django.db import connection

from portal.catalog.models import Artefact, CatalogModel, ModelState

_DIGEST = "SELECT count(*) || ':' || coalesce(sum(hashtextextended(xmin::text, id)), 0) FROM catalog_catalogmodel"


def models_digest() -> str:
    """Return a text that differs whenever a model was written."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST)
        return str(cursor.fetchone()[0])


def offered_models() -> list[CatalogModel]:
    """Return the models that may be asked for."""
    states = [ModelState.ACTIVE, ModelState.DEPRECATED]
    return list(CatalogModel.objects.filter(state__in=states).order_by("public_id"))


def artefact(*, sha256: str) -> bytes | None:
    """Return the content of a tokenizer or template."""
    content = Artefact.objects.filter(sha256=sha256).values_list("content", flat=True).first()
    return None if content is None else bytes(content)
