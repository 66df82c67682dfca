"""The catalogue: one id is one artefact, sold only with a licence that allows it."""

import json
from dataclasses import replace

import pytest
from django.db import IntegrityError, transaction

from portal.audit.models import AuditEvent
from portal.audit.services import Actor
from portal.catalog.models import Artefact, ArtefactKind, CatalogModel, ModelState
from portal.catalog.rules.parameters import EngineArgumentRefused
from portal.catalog.rules.rendering import TemplateInvalid
from portal.catalog.rules.states import ModelMoveRefused
from portal.catalog.rules.tokenizers import TokenizerInvalid
from portal.catalog.services import artefacts, models
from portal.core.errors import InvalidValue, NotFound
from tests.factories.catalog import CatalogModelFactory, demo_overheads, demo_template, demo_tokenizer

ACTOR = Actor(public_id="user_operator")
SPEC = models.ModelSpec(
    public_id="acme/chat-8b",
    name="Acme Chat 8B",
    source="https://models.example/acme/chat-8b",
    revision="0123456789abcdef",
    artefact_digest="9f" * 32,
    licence="Apache-2.0",
    is_commercial_use_allowed=True,
    context_tokens=8192,
    max_output_tokens=4096,
    dtype="bfloat16",
    engine_args={"enable_prefix_caching": True},
    supported_parameters=("tools", "temperature"),
)


@pytest.fixture
def spec(db, now) -> models.ModelSpec:
    tokenizer = artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=demo_tokenizer(), now=now)
    template = artefacts.add_artefact(kind=ArtefactKind.CHAT_TEMPLATE, content=demo_template(), now=now)
    return replace(SPEC, tokenizer=tokenizer.sha256, chat_template=template.sha256)


def test_a_draft_is_stored_with_its_proven_overheads(spec, now):
    model = models.create_model(spec=spec, actor=ACTOR, now=now)

    assert (model.state, model.message_overhead_bytes, model.request_overhead_bytes) == (
        "draft",
        demo_overheads().message_bytes,
        demo_overheads().request_bytes,
    )
    assert model.supported_parameters == ["temperature", "tools"]
    assert AuditEvent.objects.get().event == "model.created"


def test_without_a_tokenizer_nothing_is_proven(db, now):
    model = models.create_model(spec=SPEC, actor=ACTOR, now=now)

    assert (model.message_overhead_bytes, model.request_overhead_bytes) == (None, None)


def test_a_template_that_defies_proof_is_rendered_each_time(spec, now):
    echo = b"{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}"
    template = artefacts.add_artefact(kind=ArtefactKind.CHAT_TEMPLATE, content=echo, now=now)

    model = models.create_model(spec=replace(spec, chat_template=template.sha256), actor=ACTOR, now=now)

    assert model.message_overhead_bytes is None


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"public_id": "../x"}, "public_id"),
        ({"public_id": "a/b/c"}, "public_id"),
        ({"public_id": ""}, "public_id"),
        ({"artefact_digest": "9F" * 32}, "artefact_digest"),
        ({"artefact_digest": ""}, "artefact_digest"),
        ({"dtype": "int3"}, "dtype"),
        ({"max_output_tokens": 9000}, "max_output_tokens"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"default_output_tokens": 0}, "default_output_tokens"),
        ({"licence": " "}, "licence"),
        ({"revision": ""}, "revision"),
        ({"supported_parameters": ("prompt_logprobs",)}, "supported_parameters"),
        ({"tokenizer": "00" * 32}, "tokenizer"),
        ({"task": "painting"}, "task"),
        ({"embedding_dimensions": 8}, "embedding_dimensions"),
        ({"task": "embedding"}, "embedding_dimensions"),
        ({"task": "embedding", "embedding_dimensions": 16_385}, "embedding_dimensions"),
    ],
)
def test_a_wrong_entry_is_named_and_not_stored(spec, now, change, param):
    with pytest.raises(InvalidValue) as refusal:
        models.create_model(spec=replace(spec, **change), actor=ACTOR, now=now)

    assert refusal.value.param == param
    assert not CatalogModel.objects.exists()


def test_an_engine_argument_off_the_list_is_refused(spec, now):
    with pytest.raises(EngineArgumentRefused):
        models.create_model(spec=replace(spec, engine_args={"trust_remote_code": True}), actor=ACTOR, now=now)


def test_an_id_is_taken_for_ever(spec, now):
    models.create_model(spec=spec, actor=ACTOR, now=now)

    with pytest.raises(models.ModelExists):
        models.create_model(spec=replace(spec, artefact_digest="aa" * 32), actor=ACTOR, now=now)

    assert CatalogModel.objects.get().artefact_digest == "9f" * 32


def test_a_model_without_commercial_use_is_not_offered(spec, now):
    models.create_model(spec=replace(spec, is_commercial_use_allowed=False), actor=ACTOR, now=now)

    with pytest.raises(models.CommercialUseNotAllowed):
        models.activate_model(public_id=spec.public_id, actor=ACTOR, now=now)

    assert CatalogModel.objects.get().state == ModelState.DRAFT


def test_an_embedding_model_may_have_any_tokenizer_but_must_have_one(spec, now):
    loose = b'{"model": {"type": "Unigram", "vocab": [["a", 0.0]]}, "pre_tokenizer": {"type": "Metaspace"}}'
    stored = artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=loose, now=now)
    vectors = replace(spec, task="embedding", embedding_dimensions=8, chat_template=None)

    model = models.create_model(spec=replace(vectors, tokenizer=stored.sha256), actor=ACTOR, now=now)
    assert model.request_overhead_bytes is None, "its texts are counted before each request"
    assert models.activate_model(public_id=spec.public_id, actor=ACTOR, now=now).state == "active"

    models.create_model(spec=replace(vectors, public_id="acme/bare", tokenizer=None), actor=ACTOR, now=now)
    with pytest.raises(models.TokenizerMissing):
        models.activate_model(public_id="acme/bare", actor=ACTOR, now=now)


def test_a_tokenizer_that_adds_more_than_any_bound_counts_is_not_offered(spec, now):
    pieces = [{"SpecialToken": {"id": "<s>", "type_id": 0}}] * 9
    greedy = {
        "model": {"type": "BPE", "vocab": {"a": 0}},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "post_processor": {"type": "TemplateProcessing", "single": pieces},
    }
    stored = artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=json.dumps(greedy).encode(), now=now)
    models.create_model(spec=replace(spec, tokenizer=stored.sha256), actor=ACTOR, now=now)

    with pytest.raises(models.TokenizerUnbounded):
        models.activate_model(public_id=spec.public_id, actor=ACTOR, now=now)


def test_a_tokenizer_that_does_not_bound_tokens_is_not_offered(spec, now):
    loose = b'{"model": {"type": "BPE", "vocab": {"a": 0}}, "pre_tokenizer": {"type": "Metaspace"}}'
    stored = artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=loose, now=now)
    model = models.create_model(spec=replace(spec, tokenizer=stored.sha256), actor=ACTOR, now=now)

    assert model.message_overhead_bytes is None
    with pytest.raises(models.TokenizerUnbounded):
        models.activate_model(public_id=spec.public_id, actor=ACTOR, now=now)


def test_the_life_of_a_model(spec, now):
    models.create_model(spec=spec, actor=ACTOR, now=now)
    moves = [models.activate_model, models.deprecate_model, models.activate_model, models.retire_model]

    states = [move(public_id=spec.public_id, actor=ACTOR, now=now).state for move in moves]

    assert states == ["active", "deprecated", "active", "retired"]
    assert CatalogModel.objects.get().deprecates_at == now
    with pytest.raises(ModelMoveRefused):
        models.activate_model(public_id=spec.public_id, actor=ACTOR, now=now)
    with pytest.raises(NotFound):
        models.activate_model(public_id="nobody/nothing", actor=ACTOR, now=now)


@pytest.mark.parametrize("state", [ModelState.ACTIVE, ModelState.DEPRECATED, ModelState.RETIRED])
@pytest.mark.parametrize(
    "change",
    [
        {"artefact_digest": "aa" * 32},
        {"public_id": "acme/other"},
        {"revision": "other"},
        {"source": "other"},
        {"dtype": "float16"},
        {"quantization": "fp8"},
        {"end_tokens": 2},
        {"tokenizer": None},
        {"chat_template": None},
        {"state": "draft"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_pins_an_offered_model_cannot_change_in_the_database(db, state, change):
    model = CatalogModelFactory(state=state)

    with pytest.raises(IntegrityError, match="one model id is one artefact"), transaction.atomic():
        CatalogModel.objects.filter(pk=model.pk).update(**change)


def test_what_does_not_pin_it_can(db):
    model = CatalogModelFactory()

    CatalogModel.objects.filter(pk=model.pk).update(name="Better name", first_token_timeout_s=90, context_tokens=9000)

    model.refresh_from_db()
    assert (model.name, model.first_token_timeout_s) == ("Better name", 90)


def test_an_offered_model_cannot_be_deleted_and_a_draft_can(db):
    offered, draft = CatalogModelFactory(), CatalogModelFactory(is_draft=True)

    with pytest.raises(IntegrityError, match="stays in the catalogue"), transaction.atomic():
        offered.delete()
    draft.delete()

    assert CatalogModel.objects.get() == offered


def test_a_draft_can_be_corrected(db):
    draft = CatalogModelFactory(is_draft=True)

    assert CatalogModel.objects.filter(pk=draft.pk).update(artefact_digest="aa" * 32) == 1


def test_an_artefact_is_its_digest(spec, now):
    again = artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=demo_tokenizer(), now=now)

    assert again.sha256 == spec.tokenizer
    assert Artefact.objects.count() == 2
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        Artefact.objects.filter(pk=again.pk).update(content=b"other")


def test_an_artefact_is_read_as_what_it_claims_to_be(db, now):
    with pytest.raises(TokenizerInvalid):
        artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=demo_template(), now=now)
    for content in (b"{% for %}", b"\xff\xfe"):
        with pytest.raises(TemplateInvalid):
            artefacts.add_artefact(kind=ArtefactKind.CHAT_TEMPLATE, content=content, now=now)

    assert not Artefact.objects.exists()


def test_the_same_bytes_are_not_two_kinds(db, now):
    content = demo_tokenizer()
    artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=content, now=now)
    small = b'{"model": {"vocab": {}}}'
    artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=small, now=now)

    with pytest.raises(artefacts.ArtefactKindDiffers):
        artefacts.add_artefact(kind=ArtefactKind.CHAT_TEMPLATE, content=small, now=now)


def test_a_template_too_costly_to_examine_is_refused_by_a_child_process(spec, now):
    costly = b"{% macro f(n) %}{{ f(n-1) if n }}{{ f(n-1) if n }}{% endmacro %}{{ f(60) }}"
    template = artefacts.add_artefact(kind=ArtefactKind.CHAT_TEMPLATE, content=costly, now=now)

    with pytest.raises(TemplateInvalid, match="too much time or memory"):
        models.create_model(spec=replace(spec, chat_template=template.sha256), actor=ACTOR, now=now)

    assert not CatalogModel.objects.exists()
