"""Compiled tokenizers and templates of models, by hash: read once from the database, in the counting threads."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.db import Error as DatabaseError
from django.db import close_old_connections
from jinja2 import Template

from portal.catalog.rules import rendering
from portal.catalog.rules.rendering import TemplateInvalid
from portal.catalog.selectors import for_gateway
from portal.gateway.contracts import ModelEntry
from portal.gateway.segments import Segmented

log = logging.getLogger(__name__)

_RETRY_MISSING_S: Final = 5.0
_KEPT: Final = 64

ReadArtefact = Callable[[str], bytes | None]


class ArtefactMissing(Exception):
    """The tokenizer or template is not there, or cannot be read now."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A compiled template; one that prints the time renders the same messages differently from day to day."""

    compiled: Template
    is_timeless: bool


class Artefacts:
    """What was read is kept by its hash."""

    def __init__(self, read: ReadArtefact | None = None) -> None:
        self._read = read or _read_artefact
        self._tokenizers: dict[str, Segmented] = {}
        self._templates: dict[str, ChatTemplate] = {}
        self._missing: dict[str, float] = {}

    def has(self, model: ModelEntry) -> bool:
        """Tell whether the model's tokenizer and template are at hand, without waiting."""
        return model.tokenizer_sha256 in self._tokenizers and model.template_sha256 in self._templates

    def tokenizer(self, sha256: str) -> Segmented:
        """Return the tokenizer. Raises ArtefactMissing."""
        found = self._tokenizers.get(sha256)
        if found is None:
            found = Segmented(self._content(sha256).decode())
            _keep(self._tokenizers, sha256, found)
        return found

    def template(self, sha256: str) -> ChatTemplate:
        """Return the template. Raises ArtefactMissing."""
        found = self._templates.get(sha256)
        if found is None:
            text = self._content(sha256).decode()
            try:
                found = ChatTemplate(rendering.compile_template(text), is_timeless="strftime_now" not in text)
            except TemplateInvalid as error:
                raise ArtefactMissing(sha256) from error
            _keep(self._templates, sha256, found)
        return found

    def _content(self, sha256: str) -> bytes:
        now = time.monotonic()
        if now < self._missing.get(sha256, 0.0):
            raise ArtefactMissing(sha256)
        try:
            content = self._read(sha256)
        except DatabaseError as error:
            log.warning("tokens.artefact_not_read", extra={"sha256": sha256, "reason": type(error).__name__})
            content = None
        if content is None:
            self._missing[sha256] = now + _RETRY_MISSING_S
            raise ArtefactMissing(sha256)
        return content


def _keep(kept: dict[str, Any], sha256: str, value: object) -> None:
    while len(kept) >= _KEPT:
        kept.pop(next(iter(kept)))
    kept[sha256] = value


def _read_artefact(sha256: str) -> bytes | None:
    close_old_connections()
    return for_gateway.artefact(sha256=sha256)
