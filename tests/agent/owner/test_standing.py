"""What the owner allows: a pause above the GPU's use above the clock above a drain, each with its end."""

from datetime import UTC, datetime, timedelta

import pytest
from poolhouse_agent.owner import rules, standing
from poolhouse_agent.owner.standing import Action, Pause, Standing

RULES = rules.read(
    {"timezone": "Europe/Berlin", "serve": ["mon-fri 18:00-08:00", "sat-sun 00:00-24:00"], "quiet": ["23:00-06:00"]},
    where="x",
)
EVENING = datetime(2026, 11, 30, 18, 0, tzinfo=UTC)  # Monday, 19:00 in Berlin
NOON = datetime(2026, 11, 30, 11, 0, tzinfo=UTC)
NIGHT = datetime(2026, 11, 30, 22, 30, tzinfo=UTC)


def decide(now: datetime, *, pause: Pause | None = None, in_use: str = "", is_draining: bool = False) -> Standing:
    return standing.decide(rules=RULES, pause=pause, in_use=in_use, is_draining=is_draining, now=now)


def test_within_the_schedule_it_serves_and_knows_when_it_rests_next() -> None:
    assert decide(EVENING) == Standing(Action.SERVE)
    assert standing.next_rest(RULES, now=EVENING) == datetime(2026, 11, 30, 22, 0, tzinfo=UTC)


def test_outside_the_schedule_it_rests_until_it_begins() -> None:
    assert decide(NOON) == Standing(Action.REST, "owner_outside_schedule", datetime(2026, 11, 30, 17, tzinfo=UTC))
    assert standing.next_rest(RULES, now=NOON) is None


def test_quiet_hours_win_over_the_schedule_and_end_where_serving_begins_again() -> None:
    assert decide(NIGHT) == Standing(Action.REST, "owner_quiet_hours", datetime(2026, 12, 1, 5, tzinfo=UTC))


def test_a_rest_that_goes_over_from_one_rule_to_the_other_ends_with_the_last() -> None:
    both = rules.read({"timezone": "UTC", "serve": ["09:00-17:00"], "quiet": ["15:00-18:00"]}, where="x")

    found = standing.decide(rules=both, pause=None, in_use="", is_draining=False, now=NOON + timedelta(hours=4.5))

    assert found == Standing(Action.REST, "owner_quiet_hours", datetime(2026, 12, 1, 9, tzinfo=UTC))


def test_a_pause_wins_over_everything_and_ends_by_itself() -> None:
    pause = Pause(EVENING, EVENING + timedelta(hours=2))

    assert decide(EVENING, pause=pause, in_use="x (process 1)") == Standing(Action.REST, "owner_paused", pause.until)
    assert decide(EVENING + timedelta(hours=2), pause=pause) == Standing(Action.SERVE)
    assert decide(EVENING, pause=Pause(EVENING)) == Standing(Action.REST, "owner_paused", None)


def test_the_owners_own_work_frees_the_gpus_until_nobody_knows_when() -> None:
    assert decide(EVENING, in_use="blender (process 7)") == Standing(
        Action.REST, "owner_uses_gpu", None, "blender (process 7)"
    )


def test_a_drain_keeps_the_engines_and_a_rest_wins_over_it() -> None:
    assert decide(EVENING, is_draining=True) == Standing(Action.DRAIN, "drain_requested")
    assert decide(NOON, is_draining=True).action is Action.REST


def test_without_rules_nothing_ever_changes_by_the_clock() -> None:
    free = rules.read({}, where="x")

    assert standing.next_rest(free, now=NOON) is None


@pytest.mark.parametrize("minute", range(0, 7 * 24 * 60, 97))
def test_what_it_tells_as_the_end_of_a_rest_is_when_it_serves_again(minute: int) -> None:
    now = EVENING + timedelta(minutes=minute)
    found = decide(now)

    if found.action is Action.REST:
        assert found.until is not None
        assert decide(found.until).action is Action.SERVE
        assert decide(found.until - timedelta(seconds=1)).action is Action.REST
