"""The owner's rules: read from the configuration, set over it by command, refused where they make no sense."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from poolhouse_agent import config
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.owner import amounts, book, rules
from poolhouse_agent.owner.book import Book
from poolhouse_agent.owner.standing import Pause
from poolhouse_agent.state import State

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_the_configuration_sets_them(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(
        '[owner]\ntimezone = "Europe/Berlin"\nserve = ["mon-fri 18:00-08:00"]\nquiet = ["23:00-06:30"]\n'
        'yield = false\nyield_ignore = ["dcgm-exporter"]\npower_cap_w = 280\ndownload_day = "50GB"\n',
        encoding="ascii",
    )

    found = rules.read(config.load(path, environ={}).owner, where=path)

    assert (str(found.zone), len(found.serve), len(found.quiet)) == ("Europe/Berlin", 1, 1)
    assert (found.is_yielding, found.yield_ignored) == (False, frozenset({"dcgm-exporter"}))
    assert (found.power_cap_w, found.download_day_bytes, found.download_month_bytes) == (280, 50_000_000_000, None)


def test_without_any_the_machine_always_serves_and_yields() -> None:
    found = rules.read({}, where="x")

    assert (found.serve, found.quiet, found.is_yielding, found.power_cap_w) == ((), (), True, None)


BAD: dict[str, dict[str, Any]] = {
    "an unknown key": {"quiet_hours": ["22:00-07:00"]},
    "no list": {"quiet": "22:00-07:00"},
    "no window": {"serve": ["always"]},
    "no zone": {"timezone": "Mars"},
    "a number for a switch": {"yield": 1},
    "a switch for a number": {"power_cap_w": True},
    "too little power": {"power_cap_w": 9},
    "too much power": {"power_cap_w": 2001},
    "a fraction of a watt": {"power_cap_w": 280.5},
    "no size": {"download_day": "much"},
    "a negative size": {"download_month": "-1GB"},
}


@pytest.mark.parametrize("name", BAD)
def test_what_makes_no_sense_is_refused_and_named(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        rules.read(BAD[name], where="agent.toml")

    assert raised.value.code == "config_invalid"
    assert "agent.toml" in raised.value.detail
    assert min(BAD[name]) in raised.value.detail


def test_a_bad_rule_stops_the_agent_before_it_starts(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('[owner]\nquiet = ["22:00"]\n', encoding="ascii")

    with pytest.raises(ConfigError):
        config.load(path, environ={})


def test_what_is_set_by_command_stands_over_the_configuration(state: State) -> None:
    book.store(state, Book({"quiet": ["21:00-22:00"], "power_cap_w": None}, Pause(NOW, NOW + timedelta(hours=1))))

    found = book.load(state)
    merged = book.merged({"quiet": ["01:00-02:00"], "power_cap_w": 300}, found, where="x")

    assert found.pause == Pause(NOW, NOW + timedelta(hours=1))
    assert merged.quiet[0].start == 21 * 60
    assert merged.power_cap_w is None


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"rules": 1, "pause": null}', '{"rules": {}, "pause": {"since": "x", "until": null}}',
             '{"rules": {}, "pause": {"since": "2026-11-30T12:00:00", "until": null}}', "{"],
)  # fmt: skip
def test_a_damaged_file_is_named(state: State, text: str) -> None:
    (state.folder / book.FILE).write_text(text, encoding="ascii")

    with pytest.raises(ConfigError) as raised:
        book.load(state)

    assert raised.value.code == "state_unreadable"


@pytest.mark.skipif(os.geteuid() != 0, reason="only an administrator can give files away")
def test_what_an_administrator_sets_the_agents_user_can_read(state: State) -> None:
    os.chown(state.folder, 4242, 4242)

    book.store(state, Book({"yield": False}))

    found = (state.folder / book.FILE).stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (4242, 4242, 0o600)


@pytest.mark.parametrize(
    ("text", "seconds"), [("45m", 2700), ("2h30m", 9000), ("3d", 259_200), ("90s", 90), ("1d2h3m4s", 93_784)]
)
def test_durations_are_read(text: str, seconds: int) -> None:
    assert amounts.duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2x", "-2h", "2h x", "2.5h"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        amounts.duration_s(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("50GB", 50 * 10**9),
        ("64MiB", 64 << 20),
        ("1.5 TB", 1_500 * 10**9),
        ("0.001kb", 1),
        ("2 gib", 2 << 30),
    ],
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert amounts.size_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GB", "1 XB", "1.2.3GB", "-1", "1GBs"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        amounts.size_bytes(text)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (50 * 10**9, "50 GB"), (1_250 * 10**9, "1.2 TB")]
)
def test_sizes_are_told(count: int, text: str) -> None:
    assert amounts.size_text(count) == text
