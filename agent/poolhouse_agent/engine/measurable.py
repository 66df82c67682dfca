"""A model that is up, as a benchmark sees it."""

from collections.abc import Callable
from dataclasses import dataclass

from poolhouse_agent.engine.readiness import Proof
from poolhouse_agent.engine.target import Target


@dataclass(frozen=True, slots=True)
class Measurable:
    """Where it answers, how long its context is, and who takes note of what measuring it cost."""

    target: Target
    context_tokens: int
    note: Callable[[Proof], None]
