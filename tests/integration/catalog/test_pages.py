"""The operator's pages of the catalogue: a model from uploaded files to its end."""

import json
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from portal.catalog.models import CatalogModel
from tests.factories.catalog import CatalogModelFactory, demo_template, demo_tokenizer
from tests.factories.nodes import DeploymentFactory
from tests.fakes.model_configs import LLAMA_3_1_8B
from tests.world import World

FACTS = {
    "public_id": "acme/chat-8b",
    "name": "Acme Chat",
    "task": "chat",
    "source": "https://models.example/acme",
    "revision": "abc",
    "artefact_digest": "9f" * 32,
    "licence": "Apache-2.0",
    "is_commercial_use_allowed": "on",
    "context_tokens": "8192",
    "max_output_tokens": "4096",
    "default_output_tokens": "1024",
    "dtype": "bfloat16",
    "engine_args": '{"enable_prefix_caching": true}',
    "supported_parameters": ["tools", "temperature"],
}


@pytest.fixture
def console(world: World):
    return world.client(world.operator)


def files(**changes) -> dict[str, SimpleUploadedFile]:
    given = {"tokenizer": demo_tokenizer(), "chat_template": demo_template(), **changes}
    return {name: SimpleUploadedFile(name, content) for name, content in given.items()}


def test_a_model_from_upload_to_retirement(console):
    response = console.post("/operator/models/new/", {**FACTS, **files()})

    model = CatalogModel.objects.get()
    assert response["location"] == f"/operator/models/{model.pk}/"
    assert (model.public_id, model.state, model.message_overhead_bytes) == ("acme/chat-8b", "draft", 36)
    assert (model.engine_args, model.supported_parameters) == (
        {"enable_prefix_caching": True},
        ["temperature", "tools"],
    )
    assert "acme/chat-8b" in console.get("/operator/models/").text
    row = DeploymentFactory(model=model)
    for move, state in (("activate", "active"), ("deprecate", "deprecated"), ("retire", "retired")):
        address = f"/operator/models/{model.pk}/{move}/"
        assert console.get(address).status_code == 200
        console.post(address)
        model.refresh_from_db()
        assert model.state == state
    row.refresh_from_db()
    assert row.desired == "stopped"


def test_an_embedding_model_needs_no_template_but_the_length_of_its_vectors(console):
    facts = {**FACTS, "public_id": "acme/embed", "task": "embedding", "supported_parameters": ["dimensions"]}
    upload = files()
    del upload["chat_template"]

    refused = console.post("/operator/models/new/", {**facts, **upload})
    assert "give the length of the model" in refused.text
    console.post("/operator/models/new/", {**facts, "embedding_dimensions": "384", **_again(upload)})

    model = CatalogModel.objects.get()
    assert (model.task, model.embedding_dimensions, model.chat_template) == ("embedding", 384, None)
    assert (model.message_overhead_bytes, model.request_overhead_bytes) == (None, 0)
    console.post(f"/operator/models/{model.pk}/activate/")
    model.refresh_from_db()
    assert model.state == "active"
    assert "makes vectors of 384 numbers" in console.get(f"/operator/models/{model.pk}/").text


def test_a_chat_model_without_a_template_is_not_stored(console):
    upload = files()
    del upload["chat_template"]

    assert "A chat model needs its template." in console.post("/operator/models/new/", {**FACTS, **upload}).text
    assert not CatalogModel.objects.exists()


def _again(upload) -> dict[str, SimpleUploadedFile]:
    for file in upload.values():
        file.seek(0)
    return upload


def test_special_tokens_are_baked_into_the_template(console):
    config = json.dumps({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": None}).encode()
    template = b"{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"

    console.post("/operator/models/new/", {**FACTS, **files(chat_template=template, tokenizer_config=config)})

    model = CatalogModel.objects.get()
    assert bytes(model.chat_template.content).startswith(b"{%- set bos_token = '<s>' -%}")
    assert (model.message_overhead_bytes, model.request_overhead_bytes) == (5, 2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"engine_args": "{"}, "engine_args"),
        ({"embedding_dimensions": "5"}, "embedding_dimensions"),
        ({"engine_args": "[]"}, "engine_args"),
        ({"engine_args": '{"trust_remote_code": true}'}, "engine_args"),
        ({"artefact_digest": "x"}, "artefact_digest"),
        ({"max_output_tokens": "9999"}, "max_output_tokens"),
        ({"supported_parameters": ["prompt_logprobs"]}, "supported_parameters"),
    ],
)
def test_a_wrong_field_is_shown_where_it_is(console, change, field):
    response = console.post("/operator/models/new/", {**FACTS, **files(), **change})

    assert response.status_code == 200
    around = response.text[response.text.index(f'name="{field}"') - 2000 :]
    assert "errorlist" in around
    assert not CatalogModel.objects.exists()


@pytest.mark.parametrize(
    "upload", [{"tokenizer": b"{}"}, {"chat_template": b"{% for %}"}, {"chat_template": b"\xff\xfe"}]
)
def test_a_wrong_file_is_refused(console, upload):
    response = console.post("/operator/models/new/", {**FACTS, **files(**upload)})

    assert response.status_code == 200
    assert re.search("errorlist", response.text)
    assert not CatalogModel.objects.exists()


def test_a_model_without_commercial_use_is_not_offered(console, db):
    model = CatalogModelFactory(is_draft=True, plain=True, is_commercial_use_allowed=False)

    response = console.post(f"/operator/models/{model.pk}/activate/")

    assert response.status_code == 409
    assert "does not allow commercial use" in response.text
    model.refresh_from_db()
    assert model.state == "draft"


def test_a_move_that_the_state_does_not_allow_changes_nothing(console, db):
    model = CatalogModelFactory(plain=True)

    for move in ("activate", "explode"):
        assert console.post(f"/operator/models/{model.pk}/{move}/").status_code == 302

    model.refresh_from_db()
    assert model.state == "active"


def test_a_new_entry_takes_its_config_with_it(console):
    config = json.dumps(LLAMA_3_1_8B).encode()
    refused = console.post("/operator/models/new/", {**FACTS, **files(config=b'{"model_type": "voodoo"}')})
    assert "No plan can be made for this kind of model" in refused.text
    assert not CatalogModel.objects.exists()

    console.post("/operator/models/new/", {**FACTS, "weight_bytes": "16060556376", **files(config=config)})

    model = CatalogModel.objects.get()
    assert (model.config, model.weight_bytes) == (LLAMA_3_1_8B, 16_060_556_376)
