"""Which files a model's weights are, and where they come from."""

from dataclasses import dataclass

from portal.catalog.models import Artefact, ArtefactKind, CatalogModel
from portal.catalog.rules import weight_lists
from portal.catalog.rules.weight_lists import WeightFile
from portal.core.errors import NotFound


class WeightsUnknown(NotFound):
    """No list of files is stored for the digest."""

    code = "weights_unknown"


@dataclass(frozen=True, slots=True)
class WeightList:
    """The files of one artefact digest."""

    source: str
    revision: str
    files: tuple[WeightFile, ...]


def weight_list(*, digest: str) -> WeightList:
    """Return the list by its digest. Raises WeightsUnknown."""
    row = Artefact.objects.filter(sha256=digest, kind=ArtefactKind.WEIGHT_LIST).first()
    model = CatalogModel.objects.filter(artefact_digest=digest).order_by("id").first()
    if row is None or model is None:
        raise WeightsUnknown(f"no list of files is stored for {digest[:12]}")
    return WeightList(model.source, model.revision, weight_lists.read(bytes(row.content)))


def has_list(*, digest: str) -> bool:
    """Tell whether nodes can fetch the model."""
    return Artefact.objects.filter(sha256=digest, kind=ArtefactKind.WEIGHT_LIST).exists()
