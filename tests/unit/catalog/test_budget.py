"""What one rendering may spend."""

import time

import pytest

from portal.catalog.rules import budget as budgets
from portal.catalog.rules.budget import Budget, TemplateTooExpensive


def test_steps_run_out():
    budget = Budget(steps=2)
    budget.step()
    budget.step()

    with pytest.raises(TemplateTooExpensive, match="too many steps"):
        budget.step()


def test_characters_run_out():
    budget = Budget(characters=5)
    budget.emit(5)

    with pytest.raises(TemplateTooExpensive, match="writes too much"):
        budget.emit(1)


def test_time_runs_out_between_cheap_steps_and_at_once_for_dear_ones():
    late = Budget(ends_at=time.monotonic() - 1)
    for _ in range(63):
        late.step()
    with pytest.raises(TemplateTooExpensive, match="too long"):
        late.step()

    with pytest.raises(TemplateTooExpensive, match="too long"):
        Budget(ends_at=time.monotonic() - 1).step(64)


def test_values_are_weighed_without_being_written():
    assert budgets.weigh({"a": [1, "bc", None]}, Budget()) >= len('{"a":[1,"bc",null]}')
    shared: list[object] = ["x" * 1000]
    for _ in range(60):
        shared = [shared, shared]

    with pytest.raises(TemplateTooExpensive):
        budgets.weigh(shared, Budget())
    with pytest.raises(TemplateTooExpensive):
        budgets.weigh("x" * 100, Budget(characters=50))


def test_the_budget_is_the_renderings_own():
    mine = Budget()
    with budgets.spending(mine) as inner:
        assert budgets.current() is inner is mine

    assert budgets.current() is not mine
    assert budgets.current().steps < mine.steps
