"""Rows of the catalogue. `CatalogModelFactory()` is an active model with the demo's tokenizer and template."""

import hashlib
from functools import cache
from pathlib import Path

import factory
from factory.django import DjangoModelFactory

from portal.catalog.models import Artefact, ArtefactKind, CatalogModel, ModelState
from portal.catalog.rules.overheads import Overheads, prove
from tests.factories.accounts import JOINED

DEMO = Path(__file__).parents[2] / "portal" / "sandbox" / "demo_model"


def demo_tokenizer() -> bytes:
    """Return the demo model's tokenizer.json."""
    return (DEMO / "tokenizer.json").read_bytes()


def demo_template() -> bytes:
    """Return the demo model's chat template."""
    return (DEMO / "chat_template.jinja").read_bytes()


@cache
def demo_overheads() -> Overheads:
    """Return what the demo's template adds."""
    proven = prove(demo_template().decode())
    assert proven is not None
    return proven


def artefact(kind: ArtefactKind, content: bytes) -> Artefact:
    """Return the stored file, storing it first where it is missing."""
    digest = hashlib.sha256(content).hexdigest()
    return Artefact.objects.get_or_create(
        sha256=digest, defaults={"kind": kind, "content": content, "created_at": JOINED}
    )[0]


class CatalogModelFactory(DjangoModelFactory):
    class Meta:
        model = CatalogModel

    class Params:
        plain = factory.Trait(
            tokenizer=None, chat_template=None, message_overhead_bytes=None, request_overhead_bytes=None
        )
        is_draft = factory.Trait(state=ModelState.DRAFT)

    public_id = factory.Sequence(lambda n: f"acme/chat-{n}")
    name = factory.Sequence(lambda n: f"Chat {n}")
    state = ModelState.ACTIVE
    source = "https://models.example/acme/chat"
    revision = "0123456789abcdef"
    artefact_digest = factory.Sequence(lambda n: hashlib.sha256(f"folder {n}".encode()).hexdigest())
    licence = "Apache-2.0"
    is_commercial_use_allowed = True
    context_tokens = 8192
    max_output_tokens = 4096
    dtype = "bfloat16"
    tokenizer = factory.LazyFunction(lambda: artefact(ArtefactKind.TOKENIZER, demo_tokenizer()))
    chat_template = factory.LazyFunction(lambda: artefact(ArtefactKind.CHAT_TEMPLATE, demo_template()))
    message_overhead_bytes = factory.LazyFunction(lambda: demo_overheads().message_bytes)
    request_overhead_bytes = factory.LazyFunction(lambda: demo_overheads().request_bytes)
    supported_parameters = factory.LazyFunction(lambda: ["max_tokens", "temperature", "tools"])
    created_at = JOINED
