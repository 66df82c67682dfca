"""`pause`, `resume`, `schedule`, `limits`, `power`: exactly what they print, and what they leave for the agent."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from poolhouse_agent import cli
from poolhouse_agent.owner import book
from poolhouse_agent.state import Membership, State, Wish

from tests.fakes.nvml import build

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class Shell:
    """Runs commands in this process and takes what they print."""

    def __init__(self, state: State, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.state = state
        self.config = config
        self._capsys = capsys

    def __call__(self, *words: str) -> str:
        """Run a command that must do well; return what it printed."""
        code = cli.main(["--config", str(self.config), "--state", str(self.state.folder), *words])
        found = self._capsys.readouterr()
        assert code == 0, found
        return found.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    def refused(self, *words: str) -> str:
        assert cli.main(["--config", str(self.config), "--state", str(self.state.folder), *words]) == 2
        return self._capsys.readouterr().err


@pytest.fixture
def shell(state: State, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    config = tmp_path / "agent.toml"
    config.write_text('[owner]\ntimezone = "Europe/Berlin"\nquiet = ["23:00-06:30"]\n', encoding="ascii")
    state.store_membership(Membership("node_1", "prov_1", "https://pool.example", "rack-1"))
    return Shell(state, config, capsys)


@pytest.fixture(autouse=True)
def noon() -> Any:
    with time_machine.travel(NOON, tick=False):
        yield


def test_the_schedule_is_shown_with_where_each_rule_comes_from(shell: Shell) -> None:
    assert (
        shell("schedule")
        == """\
  zone         Europe/Berlin  configuration
  serves       always         default
  quiet hours  23:00-06:30    configuration
serves now
"""
    )


def test_a_schedule_is_set_and_taken_back(shell: Shell) -> None:
    assert (
        shell("schedule", "set", "--serve", "mon-fri 18:00-08:00", "--serve", "sat-sun 00:00-24:00")
        == """\
  zone         Europe/Berlin        configuration
  serves       mon-fri 18:00-08:00  set by command
               sat-sun 00:00-24:00  set by command
  quiet hours  23:00-06:30          configuration
rests now until Mon 18:00: The owner lets this machine serve at other times.
the agent does not run now
"""
    )
    assert shell.json("schedule", "clear")["serve"] is None
    assert book.load(shell.state).set == {}


def test_the_schedule_as_json(shell: Shell) -> None:
    assert shell.json("schedule", "set", "--quiet", "12:00-14:00") == {
        "timezone": "Europe/Berlin", "serve": None, "quiet": ["12:00-14:00"], "zone": "Europe/Berlin",
        "now": {"action": "rest", "code": "owner_quiet_hours", "until": "2026-11-30T13:00:00+00:00"},
    }  # fmt: skip


def test_what_makes_no_sense_is_refused_and_changes_nothing(shell: Shell) -> None:
    shell("schedule", "set", "--quiet", "01:00-02:00")
    before = (shell.state.folder / book.FILE).read_bytes()

    assert "'25:00-02:00'" in shell.refused("schedule", "set", "--quiet", "25:00-02:00")
    assert "no whole number of watts" in shell.refused("limits", "set", "--power-cap", "much")
    assert "from 10 to 2000" in shell.refused("limits", "set", "--power-cap", "5")
    assert "is no size" in shell.refused("limits", "set", "--download-day", "lots")
    assert "nothing was given to set" in shell.refused("limits", "set")
    assert "nothing was given to set" in shell.refused("schedule", "set")
    assert "is no duration" in shell.refused("pause", "--for", "soon")
    assert (shell.state.folder / book.FILE).read_bytes() == before


def test_limits_are_set_and_shown(shell: Shell) -> None:
    shell("limits", "set", "--power-cap", "280", "--download-day", "50GB", "--yield", "off", "--yield-ignore", "dcgmi")

    assert (
        shell("limits")
        == """\
  yields to your GPU work  no               set by command
  processes beside         dcgmi            set by command
  power cap                280 W a GPU      set by command
  downloads a day          0 B of 50 GB     set by command
  downloads a month        0 B of no limit  default
"""
    )
    assert shell.json("limits", "clear", "power-cap", "yield") == {
        "yield": True, "yield_ignore": ["dcgmi"], "power_cap_w": None, "download_day_bytes": 50_000_000_000,
        "download_month_bytes": None, "downloaded_day_bytes": 0, "downloaded_month_bytes": 0,
    }  # fmt: skip


def test_a_pause_ends_at_its_time_or_at_resume(shell: Shell) -> None:
    assert shell.json("pause", "--for", "2h30m") == {
        "paused": True, "until": "2026-11-30T14:30:00+00:00", "is_running": False,
    }  # fmt: skip
    assert book.load(shell.state).pause == book.Pause(NOON, NOON + timedelta(hours=2, minutes=30))

    assert shell("pause") == "paused until `poolhouse-agent resume` (the agent does not run now)\n"
    assert shell("resume") == "serving again (the agent does not run now)\n"
    assert book.load(shell.state).pause is None
    assert shell.state.wish() is Wish.SERVE


def test_resume_says_where_the_schedule_keeps_it_resting(shell: Shell) -> None:
    shell("schedule", "set", "--quiet", "12:00-14:00")

    assert shell("resume") == (
        "serving again (the agent does not run now)\n"
        "but it rests until Mon 14:00: The machine rests at these times of its owner's choice.\n"
    )


def test_a_pause_needs_a_membership_and_a_schedule_does_not(shell: Shell) -> None:
    shell.state.forget_membership()

    assert "[not_joined]" in shell.refused("pause")
    assert shell("schedule").endswith("serves now\n")


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler for the stand-in of libnvidia-ml")
def test_an_administrator_sets_and_restores_the_cap(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = build.Scenario(tmp_path / "scenario.txt")
    monkeypatch.setenv("NVML_STUB", str(scenario.path))
    monkeypatch.setenv("POOLHOUSE_NVML", str(build.build(tmp_path)))
    assert shell("power", "apply") == "nothing to change\n"
    shell("limits", "set", "--power-cap", "280")

    assert shell("power", "apply").splitlines()[0].endswith("1: 450 W before, 280 W now")
    assert shell("power", "restore").splitlines()[0].endswith("1: 280 W before, 450 W now")


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler for the stand-in of libnvidia-ml")
def test_without_the_right_the_cap_says_what_to_do(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = build.Scenario(tmp_path / "scenario.txt")
    scenario.add("fail.nvmlDeviceSetPowerManagementLimit=4")
    monkeypatch.setenv("NVML_STUB", str(scenario.path))
    monkeypatch.setenv("POOLHOUSE_NVML", str(build.build(tmp_path)))
    shell("limits", "set", "--power-cap", "280")

    code = cli.main(["--config", str(shell.config), "--state", str(shell.state.folder), "power", "apply"])

    assert code == 1
    out = capsys.readouterr().out.splitlines()
    assert "[power_cap_not_permitted]" in out[0]
    assert out[1].startswith("  fix: Run `sudo poolhouse-agent power apply`")
