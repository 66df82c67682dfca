"""Retries are a tenth of the requests at most, for each model and for the process, with a floor for a lone request."""

import pytest

from portal.gateway.retry_budget import FLOOR, WINDOW_S, RetryBudget


class _Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


def _taken(budget: RetryBudget, model_id: int, tries: int) -> int:
    return sum(budget.take(model_id) for _ in range(tries))


def test_a_lone_request_may_be_retried(clock: _Clock) -> None:
    budget = RetryBudget(clock)
    budget.note_request(1)

    assert _taken(budget, 1, 20) == FLOOR


def test_retries_multiply_to_a_tenth_and_no_further(clock: _Clock) -> None:  # litellm#34129, litellm#34399
    budget = RetryBudget(clock)
    for _ in range(1_000):
        budget.note_request(1)

    assert _taken(budget, 1, 3_000) == 100


def test_one_models_failures_leave_the_others_their_retries(clock: _Clock) -> None:
    budget = RetryBudget(clock)
    for _ in range(200):
        budget.note_request(1)
        budget.note_request(2)

    assert _taken(budget, 1, 100) == 20
    assert _taken(budget, 2, 100) == 20


def test_all_models_together_stay_within_the_process_budget(clock: _Clock) -> None:
    budget = RetryBudget(clock)
    for model_id in range(50):
        budget.note_request(model_id)

    assert sum(_taken(budget, model_id, 5) for model_id in range(50)) == 3 * FLOOR


def test_the_window_slides(clock: _Clock) -> None:
    budget = RetryBudget(clock)
    assert _taken(budget, 1, 20) == FLOOR

    clock.now += WINDOW_S * 1.5
    half = _taken(budget, 1, 20)
    clock.now += WINDOW_S * 2
    again = _taken(budget, 1, 20)

    assert half == FLOOR // 2
    assert again == FLOOR


def test_a_retry_that_found_no_node_is_put_back(clock: _Clock) -> None:
    budget = RetryBudget(clock)
    assert _taken(budget, 1, 20) == FLOOR

    budget.put_back(1)

    assert _taken(budget, 1, 20) == 1


def test_the_floor_is_the_operators_choice(clock: _Clock) -> None:
    assert _taken(RetryBudget(clock, floor=2), 1, 20) == 2
