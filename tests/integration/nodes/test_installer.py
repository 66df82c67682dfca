"""What the pool serves to a machine that is to join: the installer, filled in, and the files that it checks."""

import hashlib
import re
import subprocess

import pytest
from django.test import Client

from portal.audit.services import SYSTEM_ACTOR
from portal.core import clock
from portal.nodes.models import ReleaseRing
from portal.nodes.services import releases
from tests.factories.releases import PUBLIC_KEY, files

BASE = "/agent/v1/releases/0.2.0"


@pytest.fixture
def published(db, settings):
    settings.PUBLIC_URL = "https://pool.example"
    settings.AGENT_RELEASE_PUBLIC_KEY = PUBLIC_KEY
    return releases.publish(files=files(), ring=ReleaseRing.ALL, percent=100, actor=SYSTEM_ACTOR, now=clock.now())


def filled(script: str) -> dict[str, str]:
    return dict(re.findall(r"^(server|version|wheel\w*|requirements_sha256|release_key)='(.*)'$", script, re.MULTILINE))


def test_the_installer_names_this_pool_and_pins_every_file(published) -> None:
    response = Client().get("/agent/install.sh")

    made = files()
    assert response.status_code == 200
    assert filled(response.text) == {
        "server": "https://pool.example",
        "version": "0.2.0",
        "wheel": "poolhouse_agent-0.2.0-py3-none-any.whl",
        "wheel_sha256": hashlib.sha256(made.wheel).hexdigest(),
        "requirements_sha256": hashlib.sha256(made.requirements).hexdigest(),
        "release_key": PUBLIC_KEY,
    }
    assert response.headers["cache-control"] == "no-cache"
    assert subprocess.run(["sh", "-n"], input=response.content, check=False).returncode == 0


def test_an_address_with_odd_characters_stays_text(published, settings) -> None:
    settings.PUBLIC_URL = "https://pool.example/'; touch /tmp/x; '"

    script = Client().get("/agent/install.sh").text

    assert filled(script)["server"] == "https://pool.example/%27%3B%20touch%20/tmp/x%3B%20%27"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", files().manifest),
        ("manifest.sig", files().signature.encode() + b"\n"),
        ("poolhouse_agent-0.2.0-py3-none-any.whl", files().wheel),
        ("requirements.txt", files().requirements),
    ],
)
def test_the_files_of_a_release_are_served_as_they_are(published, name, content) -> None:
    response = Client().get(f"{BASE}/{name}")

    assert (response.status_code, response.content) == (200, content)
    assert "immutable" in response.headers["cache-control"]


@pytest.mark.parametrize(
    "path", [f"{BASE}/other.whl", f"{BASE}/..%2fmanifest.json", "/agent/v1/releases/0.3.0/manifest.json"]
)
def test_nothing_else_is_served(published, path) -> None:
    assert Client().get(path).status_code == 404


def test_a_pool_without_a_release_serves_no_installer(db) -> None:
    assert Client().get("/agent/install.sh").status_code == 404


def test_a_withdrawn_release_is_served_no_more(published) -> None:
    releases.stop(version="0.2.0", withdraws=True, actor=SYSTEM_ACTOR, now=clock.now())

    assert Client().get(f"{BASE}/manifest.json").status_code == 404
    assert Client().get("/agent/install.sh").status_code == 404


def test_the_enrol_page_prints_one_command_that_checks_the_installer(published, world) -> None:
    shown = world.client(world.supplier.owner).post("/provider/enrol/", {"label": "", "hours": "1"}).text

    script = Client().get("/agent/install.sh").content
    token = re.search(r"ph-enrol-[0-9a-z]{32}", shown).group()
    command = (
        f"curl -fsSLo install.sh https://pool.example/agent/install.sh"
        f" &amp;&amp; echo &#x27;{hashlib.sha256(script).hexdigest()}  install.sh&#x27; | sha256sum -c -"
        f" &amp;&amp; printf &#x27;%s\\n&#x27; &#x27;{token}&#x27; | sudo sh install.sh --join"
    )
    assert command in shown


def test_without_a_release_the_enrol_page_says_so(db, world) -> None:
    shown = world.client(world.supplier.owner).post("/provider/enrol/", {"label": "", "hours": "1"}).text

    assert "This pool serves no agent yet" in shown
    assert "install.sh" not in shown
