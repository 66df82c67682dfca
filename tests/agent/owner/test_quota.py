"""The download quota: by the owner's day and month, over processes and restarts."""

from datetime import UTC, datetime, timedelta

import pytest
from poolhouse_agent.errors import EngineError
from poolhouse_agent.owner import quota, rules
from poolhouse_agent.owner.quota import Spent
from poolhouse_agent.state import State

NOW = datetime(2026, 11, 30, 22, 30, tzinfo=UTC)  # 23:30 in Berlin
RULES = rules.read({"timezone": "Europe/Berlin", "download_day": "10GB", "download_month": "25GB"}, where="x")
GB = 10**9


def test_what_is_fetched_counts_for_the_day_and_the_month(state: State) -> None:
    quota.note(state, RULES, count=3 * GB, now=NOW - timedelta(days=2))
    quota.note(state, RULES, count=4 * GB, now=NOW)
    quota.note(state, RULES, count=2 * GB, now=NOW)

    assert quota.spent(state, RULES, now=NOW) == Spent(6 * GB, 9 * GB)
    assert quota.left_bytes(state, RULES, now=NOW) == 4 * GB


def test_the_owners_midnight_begins_a_day_and_a_month(state: State) -> None:
    quota.note(state, RULES, count=9 * GB, now=NOW)

    later = NOW + timedelta(minutes=31)
    assert quota.spent(state, RULES, now=later) == Spent(0, 0)
    assert quota.resets_at(RULES, now=NOW) == datetime(2026, 11, 30, 23, 0, tzinfo=UTC)


def test_the_narrower_limit_holds(state: State) -> None:
    for days in range(1, 4):
        quota.note(state, RULES, count=8 * GB, now=NOW - timedelta(days=days))

    assert quota.left_bytes(state, RULES, now=NOW) == 1 * GB


def test_a_download_beyond_what_is_left_is_refused_with_when_it_comes_back(state: State) -> None:
    quota.note(state, RULES, count=9 * GB, now=NOW)
    quota.require_room(state, RULES, wanted_bytes=1 * GB, now=NOW)

    with pytest.raises(EngineError) as raised:
        quota.require_room(state, RULES, wanted_bytes=1 * GB + 1, now=NOW)

    assert raised.value.code == "download_quota_reached"
    assert raised.value.detail == (
        "1 GB are wanted, 1 GB are left of the owner's quota until 2026-12-01T00:00+01:00 at least"
    )


def test_what_was_fetched_beyond_the_limit_leaves_nothing_and_never_less(state: State) -> None:
    quota.note(state, RULES, count=99 * GB, now=NOW)

    assert quota.left_bytes(state, RULES, now=NOW) == 0


def test_without_a_limit_nothing_is_refused_and_all_is_counted(state: State) -> None:
    free = rules.read({"timezone": "UTC"}, where="x")
    quota.note(state, free, count=GB, now=NOW)

    quota.require_room(state, free, wanted_bytes=10**15, now=NOW)
    assert quota.left_bytes(state, free, now=NOW) is None
    assert quota.spent(state, free, now=NOW).day_bytes == GB


def test_old_days_are_forgotten(state: State) -> None:
    quota.note(state, RULES, count=GB, now=NOW - timedelta(days=90))
    quota.note(state, RULES, count=GB, now=NOW)

    assert state.read(quota.FILE) == {"2026-11-30": GB}
