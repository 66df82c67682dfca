"""Windows of the week, by the machine's own clock: days, midnight, summer time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poolhouse_agent.owner import windows

BERLIN = ZoneInfo("Europe/Berlin")


def within(text: str, local: str, zone: ZoneInfo = BERLIN) -> bool:
    return windows.is_within([windows.parse(text)], now=datetime.fromisoformat(local).replace(tzinfo=zone), zone=zone)


@pytest.mark.parametrize(
    ("text", "local", "is_within"),
    [
        ("09:00-17:00", "2026-11-30T09:00", True),
        ("09:00-17:00", "2026-11-30T08:59", False),
        ("09:00-17:00", "2026-11-30T17:00", False),
        ("22:00-07:00", "2026-11-30T23:00", True),
        ("22:00-07:00", "2026-11-30T06:59", True),
        ("22:00-07:00", "2026-11-30T07:00", False),
        ("00:00-24:00", "2026-11-30T23:59", True),
        ("mon-fri 09:00-17:00", "2026-11-28T12:00", False),  # a Saturday
        ("fri 22:00-07:00", "2026-11-28T06:00", True),  # Saturday morning belongs to Friday's window
        ("fri 22:00-07:00", "2026-11-27T06:00", False),
        ("sat-mon 09:00-10:00", "2026-11-30T09:30", True),  # over the week's end
        ("mon,wed 09:00-10:00", "2026-12-01T09:30", False),
        ("MON 09:00-10:00", "2026-11-30T09:30", True),
    ],
)
def test_a_window_holds_the_times_it_names(text: str, local: str, is_within: bool) -> None:
    assert within(text, local) is is_within


def test_the_zone_decides_and_not_utc() -> None:
    now = datetime(2026, 7, 1, 20, 30, tzinfo=UTC)  # 22:30 in Berlin

    assert windows.is_within([windows.parse("22:00-07:00")], now=now, zone=BERLIN)
    assert not windows.is_within([windows.parse("22:00-07:00")], now=now, zone=ZoneInfo("UTC"))


@pytest.mark.parametrize(
    "text", ["", "22:00", "25:00-07:00", "22:00-24:01", "07:00-07:00", "foo 22:00-07:00", "mon tue 22:00-07:00", "9-17",
             "mon-xyz 09:00-10:00", "22:60-23:00", "24:00-01:00"],
)  # fmt: skip
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        windows.parse(text)


def test_more_windows_than_a_week_needs_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 32"):
        windows.parse_all(["09:00-10:00"] * 33)


def test_the_next_change_is_the_windows_end() -> None:
    quiet = [windows.parse("22:00-07:00")]
    now = datetime(2026, 11, 30, 23, 0, tzinfo=BERLIN)

    change = windows.next_change(quiet, lambda at: windows.is_within(quiet, now=at, zone=BERLIN), now=now, zone=BERLIN)

    assert change == datetime(2026, 12, 1, 7, 0, tzinfo=BERLIN)


def test_a_night_in_which_clocks_are_put_back_is_an_hour_longer() -> None:
    quiet = [windows.parse("22:00-07:00")]
    begin = datetime(2026, 10, 24, 22, 0, tzinfo=BERLIN)

    change = windows.next_change(
        quiet, lambda at: windows.is_within(quiet, now=at, zone=BERLIN), now=begin.astimezone(UTC), zone=BERLIN
    )

    assert change is not None
    assert change - begin.astimezone(UTC) == timedelta(hours=10)


def test_a_window_that_ends_within_the_hour_that_summer_time_skips_ends_when_clocks_are_put() -> None:
    quiet = [windows.parse("22:00-02:30")]
    now = datetime(2026, 3, 28, 23, 0, tzinfo=BERLIN)

    change = windows.next_change(quiet, lambda at: windows.is_within(quiet, now=at, zone=BERLIN), now=now, zone=BERLIN)

    assert change == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)  # 02:00 becomes 03:00


def test_what_never_changes_has_no_next_change() -> None:
    always = [windows.parse("00:00-24:00")]

    assert windows.next_change(always, lambda _: True, now=datetime.now(UTC), zone=BERLIN) is None


@given(
    start=st.integers(0, 1439), length=st.integers(1, 1439), days=st.frozensets(st.integers(0, 6), min_size=1),
    minute=st.integers(0, 60 * 24 * 400),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_nothing_changes_before_the_next_change(start: int, length: int, days: frozenset[int], minute: int) -> None:
    some = [windows.Window(days, start, (start + length) % 1440 or 1440)]
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)

    def question(at: datetime) -> bool:
        return windows.is_within(some, now=at, zone=BERLIN)

    change = windows.next_change(some, question, now=now, zone=BERLIN)

    assert change is not None
    assert question(change) is not question(now)
    step = (change - now) / 50
    assert all(question(now + step * part) is question(now) for part in range(50))


def test_the_machines_zone_comes_from_its_environment_or_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert str(windows.machine_zone()) == "Asia/Tokyo"
    assert str(windows.machine_zone("Europe/Berlin")) == "Europe/Berlin"
    monkeypatch.delenv("TZ")
    assert windows.machine_zone().utcoffset(datetime.now(UTC)) is not None
    with pytest.raises(ValueError, match="Nowhere/Land"):
        windows.machine_zone("Nowhere/Land")
