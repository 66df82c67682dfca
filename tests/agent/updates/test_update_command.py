"""`poolhouse-agent update`: what it says and refuses where there is nothing to update, and the owner's veto."""

import json
from pathlib import Path

import pytest
from poolhouse_agent.commands import update
from poolhouse_agent.installation import Installation
from poolhouse_agent.state import State
from poolhouse_agent.updates.applying import WANTED
from poolhouse_agent.updates.standing import HOLD, Updates

from tests.agent.test_command_line import Agent, agent  # noqa: F401  the fixture `agent`


async def test_what_was_not_installed_by_the_installer_cannot_update_itself(agent: Agent) -> None:  # noqa: F811
    done = await agent.run("update", "now")

    assert done.status == 2
    assert "[not_installed]" in done.err
    assert "install" in done.err.rpartition("fix:")[2].lower()


async def test_the_owner_holds_and_allows(agent: Agent) -> None:  # noqa: F811  the fixture
    agent.state.mkdir()

    held = await agent.run("update", "hold", "--json")
    assert (held.status, held.json["policy"]) == (0, "manual")
    assert (agent.state / HOLD).exists()

    assert (await agent.run("update", "allow")).status == 0
    assert not (agent.state / HOLD).exists()


@pytest.mark.parametrize("content", ["[]", "{}", '{"version": 7}', "not JSON", '"0.2.0"'])
def test_a_damaged_wish_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / WANTED).write_text(content, encoding="ascii")

    assert update.wanted(State(tmp_path)) == ""


@pytest.mark.parametrize(
    ("last", "is_asked", "version"),
    [
        ({}, False, "9.0.0"),
        ({"tried": "9.0.0", "code": "release_rolled_back"}, False, ""),
        ({"tried": "9.0.0", "code": "release_rolled_back"}, True, "9.0.0"),
        ({"tried": "9.0.0", "code": "release_unreachable"}, False, "9.0.0"),
        ({"tried": "8.0.0", "code": "release_rolled_back"}, False, "9.0.0"),
    ],
    ids=["first", "failed", "failed and asked", "pool was away", "another failed"],
)
def test_a_boot_does_not_try_again_what_failed(
    tmp_path: Path, last: dict[str, str], is_asked: bool, version: str
) -> None:
    state, prefix = State(tmp_path / "state"), tmp_path / "prefix"
    state.create()
    state.write(WANTED, {"version": "9.0.0"})
    prefix.mkdir()
    (prefix / "update.json").write_text(json.dumps(last), encoding="ascii")

    assert update.due(state, Updates(state, Installation(prefix)), is_asked=is_asked) == version
