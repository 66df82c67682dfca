"""The operator's page of agent releases, and the commands that build and sign them away from the portal."""

import base64
import hashlib
import os
import shutil
import stat
import zipfile
from io import StringIO
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from poolhouse_agent import VERSION as AGENT_VERSION
from poolhouse_agent.updates import manifest as agents_manifest

from portal.core.version import VERSION
from portal.nodes.models import AgentRelease, ReleaseState
from portal.operators.agent_releases import building
from tests.factories.releases import AgentReleaseFactory

AGENT = Path(django_settings.BASE_DIR) / "agent"


@pytest.fixture
def console(world):
    return world.client(world.operator)


def command(*words: str) -> str:
    said = StringIO()
    call_command("agent_release", *words, stdout=said)
    return said.getvalue()


@pytest.fixture(scope="module")
def built() -> building.Built:
    return building.build(AGENT)


def test_the_same_source_makes_the_same_bytes(built, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "agent"
    shutil.copytree(AGENT, copy, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for path in copy.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (1_000_000_000, 1_000_000_000))

    again = building.build(copy)

    assert hashlib.sha256(again.wheel).hexdigest() == hashlib.sha256(built.wheel).hexdigest()


def test_the_wheel_holds_what_an_agent_needs_and_no_waste(built, tmp_path: Path) -> None:
    (tmp_path / built.wheel_name).write_bytes(built.wheel)

    names = zipfile.ZipFile(tmp_path / built.wheel_name).namelist()

    assert {"poolhouse_agent/units/poolhouse-engine@.service", "poolhouse_common/failures.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests", "portal"))]
    for folder in ("poolhouse_agent", "poolhouse_common"):
        for path in (AGENT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(AGENT).as_posix() in names


def test_every_requirement_is_pinned_by_hash(built) -> None:
    logical = built.requirements.decode().replace("\\\n", " ").splitlines()
    pinned = [line for line in logical if line and not line.lstrip().startswith("#")]

    assert len(pinned) > 5
    assert all("==" in line and "--hash=sha256:" in line for line in pinned)


def test_one_version_is_written_in_three_places(built) -> None:
    assert built.version == AGENT_VERSION == VERSION


def test_a_release_is_built_signed_and_published_and_an_agent_believes_it(db, settings, tmp_path: Path) -> None:
    key, folder = tmp_path / "release.key", tmp_path / "release"

    public_key = command("key", str(key)).partition("=")[2].strip()
    command("build", str(folder))
    command("sign", str(folder), "--key", str(key))
    settings.AGENT_RELEASE_PUBLIC_KEY = public_key
    said = command("publish", str(folder), "--percent", "5", "--ring", "house")

    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    row = AgentRelease.objects.get()
    assert said.strip() == f"{VERSION} offered, 5 % of house nodes, signed"
    read = agents_manifest.read(bytes(row.manifest), signature=row.signature, public_key=public_key)
    read.wheel.require(bytes(row.wheel))
    read.requirements.require(bytes(row.requirements))
    raw = base64.b64decode(row.signature)
    signer = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key))
    signer.verify(raw, b"poolhouse-release-v1\n" + bytes(row.manifest))


def test_a_pool_with_a_key_publishes_nothing_unsigned(db, settings) -> None:
    settings.AGENT_RELEASE_PUBLIC_KEY = base64.b64encode(bytes(32)).decode()

    with pytest.raises(CommandError, match="not signed by AGENT_RELEASE_PUBLIC_KEY"):
        command("publish")

    assert not AgentRelease.objects.exists()


def test_a_key_that_others_can_read_signs_nothing(tmp_path: Path) -> None:
    key = tmp_path / "release.key"
    command("key", str(key))
    key.chmod(0o644)

    with pytest.raises(CommandError, match="can be read by other users"):
        command("sign", str(tmp_path), "--key", str(key))
    with pytest.raises(CommandError, match="exists"):
        command("key", str(key))


def test_the_list_shows_how_far_each_has_come(console) -> None:
    AgentReleaseFactory(version="0.2.0", percent=25)
    AgentReleaseFactory(version="0.3.0", state=ReleaseState.HALTED, state_code="release_rolled_back")

    shown = console.get("/operator/releases/").text

    assert "25 % of all nodes" in shown
    assert "did not reach the pool and was taken back" in shown
    assert shown.index("0.3.0") < shown.index("0.2.0")


def test_an_operator_rolls_a_release_out(console) -> None:
    AgentReleaseFactory(version="0.2.0", percent=0)

    refused = console.post("/operator/releases/0.2.0/", {"ring": "all", "percent": "101"})
    assert refused.status_code == 200
    assert AgentRelease.objects.get().percent == 0

    console.post("/operator/releases/0.2.0/", {"ring": "contracted", "percent": "40"})
    row = AgentRelease.objects.get()
    assert (row.ring, row.percent) == ("contracted", 40)


@pytest.mark.parametrize(("how", "state"), [("halt", "halted"), ("withdraw", "withdrawn")])
def test_a_release_is_stopped_after_asking(console, how: str, state: str) -> None:
    AgentReleaseFactory(version="0.2.0")

    assert console.get(f"/operator/releases/0.2.0/{how}/").status_code == 200
    assert AgentRelease.objects.get().state == ReleaseState.OFFERED
    console.post(f"/operator/releases/0.2.0/{how}/")
    assert AgentRelease.objects.get().state == state


def test_there_is_no_other_way_to_stop_one(console) -> None:
    AgentReleaseFactory(version="0.2.0")

    assert console.get("/operator/releases/0.2.0/explode/").status_code == 404
