"""The operator's pages of the engine's version and of a model's files; what an agent is told of them."""

import hashlib

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from portal.catalog.models import Artefact
from portal.nodes.models import EnginePin
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import NodeFactory, NodeSessionFactory

LIST = b"".join(
    f"{'ab' * 32}  {name}\n".encode() for name in ("config.json", "model.safetensors", "sub/tokenizer.json")
)


@pytest.fixture
def console(world):
    return world.client(world.operator)


@pytest.fixture
def model(db):
    return CatalogModelFactory(plain=True, artefact_digest=hashlib.sha256(LIST).hexdigest())


def upload(console, model, content: bytes):
    return console.post(f"/operator/models/{model.pk}/files/", {"listing": SimpleUploadedFile("files.txt", content)})


def test_a_version_is_pinned(console):
    answer = console.post("/operator/engines/", {"version": "0.33.0", "floor": "0.30"}, follow=True)

    assert answer.status_code == 200
    pin = EnginePin.objects.get()
    assert (pin.version, pin.floor) == ("0.33.0", "0.30")
    assert b"0.33.0" in console.get("/operator/engines/").content


def test_a_version_below_the_floor_is_refused_with_the_reason(console):
    answer = console.post("/operator/engines/", {"version": "0.29.0", "floor": "0.30"})

    assert b"below the floor" in answer.content
    assert not EnginePin.objects.exists()


def test_a_models_files_are_listed_and_told_to_agents(console, model, client):
    NodeSessionFactory(node=NodeFactory(), token_hash=hashlib.sha256(b"ph-session-x").hexdigest())

    assert upload(console, model, LIST).status_code == 302
    answer = client.post(
        "/agent/v1/weights", {"artefact_digest": model.artefact_digest}, content_type="application/json",
        headers={"authorization": "Bearer ph-session-x"},
    )  # fmt: skip

    told = answer.json()
    assert (told["source"], told["revision"]) == (model.source, model.revision)
    assert [one["path"] for one in told["files"]] == ["config.json", "model.safetensors", "sub/tokenizer.json"]


@pytest.mark.parametrize(
    "content",
    [
        LIST.replace(b"config", b"konfig"),
        b"nonsense\n",
        b"",
        LIST + f"{'ab' * 32}  zz/../../x.json\n".encode(),
        LIST + f"{'ab' * 32}  zz.py\n".encode(),
        f"{'ab' * 32}  config.json\n".encode(),
    ],
)
def test_a_list_that_is_not_the_models_is_refused(console, model, content):
    answer = upload(console, model, content)

    assert answer.status_code == 200
    assert not Artefact.objects.filter(kind="weight_list").exists()


def test_an_agent_without_a_session_is_told_nothing(client, model, db):
    answer = client.post("/agent/v1/weights", {"artefact_digest": "0" * 64}, content_type="application/json")

    assert answer.status_code == 401


def test_an_unknown_digest_is_named(client, db):
    NodeSessionFactory(node=NodeFactory(), token_hash=hashlib.sha256(b"ph-session-x").hexdigest())

    answer = client.post(
        "/agent/v1/weights", {"artefact_digest": "0" * 64}, content_type="application/json",
        headers={"authorization": "Bearer ph-session-x"},
    )  # fmt: skip

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "weights_unknown")
