"""Stores files of models by their SHA-256, after reading them as what they claim to be."""

import hashlib
from datetime import datetime

from portal.catalog.models import Artefact, ArtefactKind
from portal.catalog.rules import tokenizers, weight_lists
from portal.catalog.rules.rendering import TemplateInvalid, compile_template
from portal.core.errors import Conflict


class ArtefactKindDiffers(Conflict):
    """The same bytes are already stored as another kind of file."""

    code = "artefact_kind_differs"


def add_artefact(*, kind: ArtefactKind, content: bytes, now: datetime) -> Artefact:
    """Store the file, or return the one with the same bytes. Raises TemplateInvalid, TokenizerInvalid, InvalidValue."""
    match kind:
        case ArtefactKind.TOKENIZER:
            tokenizers.require_tokenizer(content)
        case ArtefactKind.WEIGHT_LIST:
            weight_lists.read(content)
        case ArtefactKind.CHAT_TEMPLATE:
            compile_template(_text(content))
    digest = hashlib.sha256(content).hexdigest()
    artefact, _ = Artefact.objects.get_or_create(
        sha256=digest, defaults={"kind": kind, "content": content, "created_at": now}
    )
    if artefact.kind != kind:
        raise ArtefactKindDiffers(f"these bytes are already stored as a {artefact.kind}", param="kind")
    return artefact


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise TemplateInvalid("the chat template is not UTF-8", param="chat_template") from error
