"""Token by token at the wanted speed, and what a faulty engine does in between."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count

from poolhouse_agent.simulate.behaviours import Behaviour, Fault
from poolhouse_agent.simulate.generation import Plan, Step

_DIES_WITH = 1


class Broken(Exception):
    """The connection is to be cut here."""


class EngineFailed(Exception):
    """An error event is to be sent here."""


def interleave(plans: Sequence[Plan]) -> Iterator[tuple[int, Step, bool]]:
    """The steps of several choices as vLLM mixes them: one token of each in turn."""
    for position in range(max(len(plan.steps) for plan in plans)):
        for index, plan in enumerate(plans):
            if position < len(plan.steps):
                yield index, plan.steps[position], position == len(plan.steps) - 1


def endless(plan: Plan) -> Iterator[tuple[int, Step, bool]]:
    """The same tokens again and again."""
    for position in count():
        yield 0, plan.steps[position % max(1, len(plan.steps) - 1)], False


async def paced(
    steps: Iterator[tuple[int, Step, bool]], *, behaviour: Behaviour, tokens_per_second: int, choices: int
) -> AsyncIterator[tuple[int, Step, bool]]:
    """Yield steps at the wanted speed; break as the behaviour says. Raises Broken, EngineFailed."""
    loop = asyncio.get_running_loop()
    speed = (behaviour.tokens_per_second or tokens_per_second) * choices
    began = loop.time()
    for number, step in enumerate(steps):
        await _misbehave(behaviour, number)
        delay = began + number / speed - loop.time()
        if delay > 0:
            await asyncio.sleep(delay)
        elif number % 32 == 0:
            await asyncio.sleep(0)
        yield step


async def _misbehave(behaviour: Behaviour, number: int) -> None:
    if behaviour.fault is Fault.HANGS_AFTER_ROLE:
        await never()
    if number < behaviour.after_tokens:
        return
    match behaviour.fault:
        case Fault.BREAKS:
            raise Broken
        case Fault.DIES:
            os._exit(_DIES_WITH)
        case Fault.STALLS:
            await never()
        case Fault.ERROR_IN_STREAM:
            raise EngineFailed


async def never() -> None:
    """Wait until cancelled."""
    await asyncio.get_running_loop().create_future()
