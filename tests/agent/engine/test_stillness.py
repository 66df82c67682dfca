"""An engine is stuck when readings show it still, not when the agent did not look."""

from poolhouse_agent.engine.metrics import Load
from poolhouse_agent.engine.stillness import Stillness


def load(tokens: int, *, running: int = 1) -> Load:
    return Load(running=running, waiting=0, counters={"generation_tokens_total": tokens})


def noted(*readings: tuple[float, Load]) -> float:
    """The seconds after the last reading; the agent looks each 5 s."""
    stillness = Stillness(10.0)
    return [stillness.note(reading, at=at) for at, reading in readings][-1]


def test_requests_without_a_token_add_up() -> None:
    assert noted((100, load(7)), (105, load(7)), (110, load(7)), (115, load(7))) == 15


def test_a_token_begins_anew() -> None:
    assert noted((100, load(7)), (105, load(7)), (110, load(8))) == 0
    assert noted((100, load(7)), (105, load(8)), (110, load(8))) == 5


def test_an_idle_engine_is_not_still() -> None:
    assert noted((100, load(7, running=0)), (105, load(7, running=0))) == 0


def test_a_request_that_came_between_two_readings_has_not_run_since_the_first() -> None:
    assert noted((100, load(7, running=0)), (190, load(7))) == 0


def test_a_machine_that_slept_was_not_seen_to_be_stuck() -> None:
    assert noted((100, load(7)), (700, load(7))) == 10
