"""An update with real venvs and processes: kept when the new version reaches the pool, taken back when it does not."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from poolhouse_agent.errors import UpdateError
from poolhouse_agent.installation import Installation, Origin
from poolhouse_agent.state import State
from poolhouse_agent.updates import applying, fetching, venvs
from poolhouse_agent.updates.applying import Outcome, Surroundings
from poolhouse_agent.updates.standing import Updates

from tests.agent.updates.world import FORGER, PUBLIC_KEY, Made, Manager, Portal, wheel

OLD, NEW = Made("0.1.0", wheel=wheel("0.1.0")), Made("0.2.0", wheel=wheel("0.2.0"))


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation that holds the old version, and the new one once a test has built it."""
    return tmp_path_factory.mktemp("prefix")


@pytest.fixture
def portal(tmp_path: Path) -> Iterator[Portal]:
    made = Portal(tmp_path / "portal")
    made.offer(OLD)
    made.offer(NEW)
    yield made
    made.close()


@pytest.fixture
def installed(prefix: Path, portal: Portal) -> Installation:
    """The old version in use, as `install.sh` leaves it."""
    (prefix / "release.json").write_text(json.dumps({"server": portal.url, "public_key": PUBLIC_KEY}), encoding="ascii")
    (prefix / "update.json").unlink(missing_ok=True)
    made = Installation(prefix)
    old = venvs.build(made, fetching.fetch(Origin(portal.url, PUBLIC_KEY), version="0.1.0", present="0.0.1"))
    for link in (made.current, made.updater):
        venvs.switch(link, old)
    return made


@pytest.fixture
def manager(installed: Installation, state: State) -> Iterator[Manager]:
    made = Manager(installed.program, state.folder)
    made.restart()
    yield made
    made.stop()


@pytest.fixture
def around(installed: Installation, state: State, manager: Manager) -> Surroundings:
    return Surroundings(installed, state, manager.restart, gate_s=3.0)


def behave(state: State, version: str, how: str) -> None:
    (state.folder / f"is-{version}").write_text(how, encoding="ascii")


def in_use(around: Surroundings) -> tuple[str, str]:
    installed = around.installed
    return installed.current.readlink().name[:5], installed.updater.readlink().name[:5]


def test_a_release_that_reaches_the_pool_stays(around: Surroundings, manager: Manager) -> None:
    patient = replace(around, gate_s=60.0)

    outcome = applying.apply(patient, version="0.2.0", present="0.1.0")

    assert outcome == Outcome("0.2.0")
    assert in_use(around) == ("0.2.0", "0.2.0")
    assert manager.restarts == 2
    assert {venv.name[:5] for venv in around.installed.versions.iterdir()} == {"0.1.0", "0.2.0"}
    last = around.installed.last_update()
    assert (last["tried"], last["code"], last.get("is_pending", False)) == ("0.2.0", "", False)


def test_a_release_that_does_not_is_taken_back(around: Surroundings, state: State) -> None:
    behave(state, "0.2.0", "silent")

    outcome = applying.apply(around, version="0.2.0", present="0.1.0")

    assert (outcome.version, outcome.code) == ("0.2.0", "release_rolled_back")
    assert in_use(around) == ("0.1.0", "0.1.0")
    status = json.loads((state.folder / "status.json").read_text(encoding="ascii"))
    assert (status["agent_version"], status["tunnel"]) == ("0.1.0", "connected")
    updates = Updates(state, around.installed)
    assert updates.told() == {"policy": "automatic", "tried": "0.2.0", "code": "release_rolled_back"}
    updates.hear("0.2.0", now=NOON)
    assert state.read(applying.WANTED) is None


def test_a_pool_that_is_away_is_not_the_releases_fault(around: Surroundings, state: State) -> None:
    behave(state, "0.1.0", "silent")
    behave(state, "0.2.0", "silent")

    outcome = applying.apply(around, version="0.2.0", present="0.1.0")

    assert outcome.code == "release_unreachable"
    assert in_use(around) == ("0.1.0", "0.1.0")
    updates = Updates(state, around.installed)
    updates.hear("0.2.0", now=NOON)
    assert state.read(applying.WANTED) == {"version": "0.2.0"}


def test_an_update_that_was_cut_off_is_judged_later(around: Surroundings, state: State) -> None:
    venv = venvs.build(around.installed, fetching.fetch(around.installed.origin(), version="0.2.0", present="0.1.0"))
    before = around.installed.current.readlink().name
    note = {"tried": "0.2.0", "from": before, "to": venv.name, "is_pending": True}
    (around.installed.prefix / "update.json").write_text(json.dumps(note), encoding="ascii")
    venvs.switch(around.installed.current, venv)
    behave(state, "0.2.0", "crashing")

    outcome = applying.finish_interrupted(around, present="0.1.0")

    assert outcome is not None
    assert outcome.code == "release_rolled_back"
    assert in_use(around) == ("0.1.0", "0.1.0")
    assert applying.finish_interrupted(around, present="0.1.0") is None


def test_a_way_back_that_was_cut_off_is_gone_to_its_end(around: Surroundings, manager: Manager) -> None:
    before = around.installed.current.readlink().name
    note = {"tried": "0.2.0", "from": before, "is_pending": True, "has_failed": True}
    (around.installed.prefix / "update.json").write_text(json.dumps(note), encoding="ascii")

    outcome = applying.finish_interrupted(replace(around, gate_s=60.0), present="0.1.0")

    assert outcome is not None
    assert outcome.code == "release_rolled_back"
    assert in_use(around) == ("0.1.0", "0.1.0")
    assert around.installed.last_update()["code"] == "release_rolled_back"


def test_an_update_that_was_cut_off_before_the_switch_never_was(around: Surroundings, manager: Manager) -> None:
    before = around.installed.current.readlink().name
    note = {"tried": "0.2.0", "from": before, "to": "0.2.0-x", "is_pending": True}
    (around.installed.prefix / "update.json").write_text(json.dumps(note), encoding="ascii")

    assert applying.finish_interrupted(around, present="0.1.0") is None
    assert manager.restarts == 1
    assert Updates(around.state, around.installed).told()["tried"] == ""


@pytest.mark.parametrize(
    ("release", "code"),
    [
        (Made("0.2.1", wheel=b"anything", key=FORGER), "release_signature_invalid"),
        (Made("0.2.1", wheel=b"no wheel at all"), "release_not_built"),
        (Made("0.2.1", wheel=wheel("0.2.0")), "release_not_built"),
        (Made("0.2.1", wheel=wheel("0.2.1"), requirements=b"left-pad==1.0\n"), "release_not_built"),
    ],
    ids=["forged", "broken", "misnamed", "without hashes"],
)
def test_what_cannot_be_installed_changes_nothing(
    around: Surroundings, manager: Manager, portal: Portal, release: Made, code: str
) -> None:
    portal.offer(release)

    with pytest.raises(UpdateError) as caught:
        applying.apply(around, version="0.2.1", present="0.1.0")

    assert caught.value.code == code
    assert in_use(around) == ("0.1.0", "0.1.0")
    assert manager.restarts == 1
    assert not [venv for venv in around.installed.versions.iterdir() if venv.name.startswith("0.2.1")]
    updates = Updates(around.state, around.installed)
    assert updates.told() == {"policy": "automatic", "tried": "0.2.1", "code": code}
    updates.hear("0.2.1", now=NOON)
    assert around.state.read(applying.WANTED) is None


def test_of_a_forged_release_nothing_but_the_manifest_is_fetched(around: Surroundings, portal: Portal) -> None:
    portal.offer(Made("0.2.1", wheel=b"anything", key=FORGER))
    portal.asked.clear()

    with pytest.raises(UpdateError, match="release_signature_invalid"):
        applying.apply(around, version="0.2.1", present="0.1.0")

    assert [Path(path).name for path in portal.asked] == ["manifest.json", "manifest.sig"]


def test_a_file_that_was_changed_on_the_way_is_refused(around: Surroundings, portal: Portal) -> None:
    path = portal.folder / "agent" / "v1" / "releases" / "0.2.0" / NEW.wheel_name
    path.write_bytes(bytes(len(NEW.wheel)))

    with pytest.raises(UpdateError, match="release_invalid"):
        applying.apply(around, version="0.2.0", present="0.1.0")

    assert in_use(around) == ("0.1.0", "0.1.0")


def test_an_older_release_is_refused_though_it_is_signed(around: Surroundings) -> None:
    with pytest.raises(UpdateError, match="release_older"):
        applying.apply(around, version="0.2.0", present="0.3.0")


def test_a_release_that_is_not_there_is_tried_again_later(around: Surroundings) -> None:
    with pytest.raises(UpdateError) as caught:
        applying.apply(around, version="9.9.9", present="0.1.0")

    assert caught.value.code == "release_unreachable"
    updates = Updates(around.state, around.installed)
    wanted = around.state.folder / applying.WANTED
    updates.hear("9.9.9", now=NOON)
    wanted.unlink()
    updates.hear("9.9.9", now=NOON + timedelta(minutes=59))
    assert not wanted.exists()
    updates.hear("9.9.9", now=NOON + timedelta(minutes=60))
    assert around.state.read(applying.WANTED) == {"version": "9.9.9"}


@pytest.mark.parametrize("name", ["update.json", "release.json"])
def test_a_damaged_file_keeps_updates_away_and_not_the_machine(around: Surroundings, name: str) -> None:
    (around.installed.prefix / name).write_text("{", encoding="ascii")
    updates = Updates(around.state, around.installed)

    assert updates.told() == {"policy": "manual", "tried": "", "code": "config_invalid"}
    updates.hear("0.2.0", now=NOON)

    assert around.state.read(applying.WANTED) is None


def test_one_update_at_a_time(around: Surroundings) -> None:
    with applying._alone(around.installed), pytest.raises(UpdateError) as caught:
        applying.apply(around, version="0.2.0", present="0.1.0")

    assert caught.value.code == "update_running"


def test_the_owner_holds_updates_back(installed: Installation, state: State) -> None:
    updates = Updates(state, installed)

    updates.hold(is_held=True)
    updates.hear("0.2.0", now=NOON)

    assert updates.told()["policy"] == "held"
    assert state.read(applying.WANTED) is None

    updates.hold(is_held=False)
    Updates(state, installed).hear("0.2.0", now=NOON)

    assert state.read(applying.WANTED) == {"version": "0.2.0"}


@pytest.mark.parametrize("said", ["", "newest", "1.0", "../0.2.0", "0.2.0\n"])
def test_what_is_no_version_is_not_asked_for(installed: Installation, state: State, said: str) -> None:
    Updates(state, installed).hear(said, now=NOON)

    assert state.read(applying.WANTED) is None


def test_without_a_pinned_key_nothing_comes_by_itself(installed: Installation, state: State) -> None:
    (installed.prefix / "release.json").write_text('{"server": "https://pool.example", "public_key": ""}')

    updates = Updates(state, installed)
    updates.hear("0.2.0", now=NOON)

    assert updates.policy == "manual"
    assert Updates(state, None).policy == "manual"
    assert state.read(applying.WANTED) is None
