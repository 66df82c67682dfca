"""What one rendering may spend: steps, characters and time. A template is a stranger's program."""

import contextvars
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MAX_STEPS = 1_000_000
MAX_CHARACTERS = 16 * 1024 * 1024
MAX_SECONDS = 2.0
_CLOCK_EVERY = 64


class TemplateTooExpensive(Exception):
    """The template spends more steps, characters or time than one rendering may."""


@dataclass(slots=True)
class Budget:
    """What is left of one rendering's means."""

    steps: int = MAX_STEPS
    characters: int = MAX_CHARACTERS
    ends_at: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)
    charges: int = 0

    def step(self, count: int = 1) -> None:
        """Spend `count` steps. Raises TemplateTooExpensive."""
        self.steps -= count
        self.charges += 1
        if self.steps < 0:
            raise TemplateTooExpensive("the template takes too many steps")
        if count >= _CLOCK_EVERY or self.charges % _CLOCK_EVERY == 0:
            self.check_time()

    def emit(self, count: int) -> None:
        """Spend `count` characters. Raises TemplateTooExpensive."""
        self.characters -= count
        if self.characters < 0:
            raise TemplateTooExpensive("the template writes too much")

    def check_time(self) -> None:
        """Raise TemplateTooExpensive once the time is over."""
        if time.monotonic() > self.ends_at:
            raise TemplateTooExpensive("the template takes too long")


_current: contextvars.ContextVar[Budget] = contextvars.ContextVar("template_budget")


@contextmanager
def spending(budget: Budget) -> Iterator[Budget]:
    """Make `budget` the one that the rendering in this thread spends."""
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)


def current() -> Budget:
    """Return the budget of the rendering in progress; outside one (constant folding) a small fresh one."""
    return _current.get(None) or Budget(steps=10_000, characters=100_000)


def weigh(value: object, budget: Budget) -> int:
    """Return about how many characters `value` is as text, without writing it. Raises TemplateTooExpensive."""
    pending: list[object] = [value]
    total = 0
    while pending:
        part = pending.pop()
        budget.step()
        total += _own_weight(part)
        if total > budget.characters:
            raise TemplateTooExpensive("the template writes too much")
        if isinstance(part, dict):
            pending.extend(part.keys())
            pending.extend(part.values())
        elif isinstance(part, list | tuple | set | frozenset):
            budget.step(len(part))
            pending.extend(part)
    return total


def _own_weight(part: object) -> int:
    if isinstance(part, str):
        return len(part) + 2
    if isinstance(part, int):
        return part.bit_length() // 3 + 2
    return 8
