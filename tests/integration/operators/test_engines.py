"""The operator's pages of the engine's version and of a model's files; what an agent is told of them."""

import hashlib
import html
import subprocess

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from poolhouse_common.artefacts import folder_digest

from portal.catalog.models import Artefact
from portal.catalog.rules import weight_lists
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


def test_the_page_of_a_models_files_tells_how_the_list_is_made_and_what_a_wrong_one_lacks(console, model):
    page = html.unescape(console.get(f"/operator/models/{model.pk}/files/").text)
    refused = html.unescape(upload(console, model, b"hello\n").text)

    assert "find . -xtype f -not -path '*/.*' -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum > ../files.txt" in page
    assert model.artefact_digest in page
    assert "'hello' is not a line of sha256sum. Make the list" in refused
    assert "No file was chosen." in console.post(f"/operator/models/{model.pk}/files/", {"listing": ""}).text


def test_the_command_of_the_page_makes_the_list_that_a_folders_digest_is_made_of(console, model, tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "sub/tokenizer.json", ".hidden", "B.txt", "a.txt"):
        (folder / name).write_text(name, encoding="ascii")
    (tmp_path / "blob").write_text("kept elsewhere", encoding="ascii")
    (folder / "linked.json").symlink_to("../blob")
    page = html.unescape(console.get(f"/operator/models/{model.pk}/files/").text)
    command = page.partition('<pre tabindex="0"><code>')[2].partition("</code>")[0]

    subprocess.run(["sh", "-c", command], cwd=folder, check=True)

    made = (tmp_path / "files.txt").read_bytes()
    assert hashlib.sha256(made).hexdigest() == folder_digest(folder)
    assert [one.path for one in weight_lists.read(made)] == [
        "B.txt", "a.txt", "config.json", "linked.json", "model.safetensors", "sub/tokenizer.json",
    ]  # fmt: skip


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
