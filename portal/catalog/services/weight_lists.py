"""Stores the lists of models' files, by which nodes fetch them."""

from datetime import datetime

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.catalog.models import Artefact, ArtefactKind
from portal.catalog.selectors import models as selectors
from portal.catalog.services import artefacts
from portal.core.errors import Conflict


class WeightListDiffers(Conflict):
    """The list's digest is not the model's: another revision, or another order of lines."""

    code = "weight_list_differs"


def add_list(*, model_id: int, content: bytes, actor: Actor, now: datetime) -> Artefact:
    """Store the list of a model's files, which its artefact digest proves. Raises InvalidValue, WeightListDiffers."""
    model = selectors.model_by_key(model_id)
    with transaction.atomic():
        row = artefacts.add_artefact(kind=ArtefactKind.WEIGHT_LIST, content=content, now=now)
        if row.sha256 != model.artefact_digest:
            raise WeightListDiffers(f"this list's digest is {row.sha256}, the model's {model.artefact_digest}")
        audit.record(
            actor=actor, event="model.files_listed", subject=model.public_id, now=now, detail={"digest": row.sha256}
        )
    return row
