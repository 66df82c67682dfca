"""`poolhouse-agent update`: what it says and refuses where there is nothing to update, and the owner's veto."""

from pathlib import Path

import pytest
from poolhouse_agent.commands import update
from poolhouse_agent.state import State
from poolhouse_agent.updates.applying import WANTED
from poolhouse_agent.updates.standing import HOLD

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
