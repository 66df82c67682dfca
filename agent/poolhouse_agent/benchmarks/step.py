"""One step of a suite: what it measures, about how long it takes, and the work."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from poolhouse_agent.checks.result import Result

Say = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Step:
    """`work` is told where to say how much is done (0 to 1); `takes_gpus` keeps engines away meanwhile."""

    name: str
    title: str
    seconds: float
    work: Callable[[Say], Awaitable[list[Result]]]
    takes_gpus: bool = False
