"""A budget's windows are the calendar of its zone, whatever its clocks do: half open, without gap or overlap."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules.windows import Window, window_of

BERLIN, NEW_YORK, HAVANA, CAIRO, APIA = (
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "Africa/Cairo",
    "Pacific/Apia",
)


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("period", "zone", "at", "starts_at", "ends_at"),
    [
        ("day", "UTC", "2026-11-30T12:00", "2026-11-30T00:00", "2026-12-01T00:00"),
        ("day", BERLIN, "2026-11-30T23:30", "2026-11-30T23:00", "2026-12-01T23:00"),
        ("day", BERLIN, "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00"),
        ("day", BERLIN, "2026-10-25T12:00", "2026-10-24T22:00", "2026-10-25T23:00"),
        ("week", BERLIN, "2026-11-30T22:59", "2026-11-29T23:00", "2026-12-06T23:00"),
        ("week", "UTC", "2026-11-29T23:59", "2026-11-23T00:00", "2026-11-30T00:00"),
        ("month", NEW_YORK, "2026-12-01T04:59", "2026-11-01T04:00", "2026-12-01T05:00"),
        ("month", NEW_YORK, "2026-12-01T05:00", "2026-12-01T05:00", "2027-01-01T05:00"),
        ("day", HAVANA, "2026-11-01T12:00", "2026-11-01T04:00", "2026-11-02T05:00"),
        ("day", CAIRO, "2026-04-24T12:00", "2026-04-23T22:00", "2026-04-24T21:00"),
        ("day", APIA, "2011-12-30T09:59", "2011-12-29T10:00", "2011-12-30T10:00"),
        ("day", APIA, "2011-12-30T10:00", "2011-12-30T10:00", "2011-12-31T10:00"),
    ],
)
def test_a_window_is_the_day_week_or_month_of_its_zone(period, zone, at, starts_at, ends_at):
    assert window_of(period=period, zone=zone, at=_utc(at)) == Window(_utc(starts_at), _utc(ends_at))


def test_a_lifetime_has_one_window_without_an_end():
    first = window_of(period="lifetime", zone=BERLIN, at=_utc("2026-01-01T00:00"))

    assert first == window_of(period="lifetime", zone="UTC", at=_utc("2036-01-01T00:00"))
    assert first.ends_at is None
    assert _utc("2026-01-01T00:00") in first


@given(
    zone=st.sampled_from(sorted(available_timezones())),
    period=st.sampled_from(["day", "week", "month"]),
    at=st.integers(631_152_000, 2_082_758_400).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
)
def test_windows_follow_one_another_without_gap_in_every_zone(zone, period, at):
    window = window_of(period=period, zone=zone, at=at)
    following = window_of(period=period, zone=zone, at=window.ends_at)

    assert at in window
    assert window.ends_at not in window
    assert following.starts_at == window.ends_at
    assert window_of(period=period, zone=zone, at=window.ends_at - timedelta(microseconds=1)) == window
    assert window.starts_at.astimezone(ZoneInfo(zone)).day == 1 or period != "month"


def test_a_naive_time_and_an_unknown_period_are_refused():
    with pytest.raises(ValueError, match="aware"):
        window_of(period="day", zone="UTC", at=datetime(2026, 1, 1))  # noqa: DTZ001  what is refused
    with pytest.raises(ValueError, match="fortnight"):
        window_of(period="fortnight", zone="UTC", at=_utc("2026-01-01T00:00"))
