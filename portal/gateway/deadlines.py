"""A deadline that costs nothing where nothing has to wait, as is nearly every write to a socket."""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Waiting(Protocol):
    """Whoever wants to know how long he has waited in all."""

    waited_s: float


async def within(seconds: float, work: Coroutine[Any, Any, T], *, waiting: Waiting | None = None) -> T:
    """Await `work` within `seconds`; time that it really took is added to `waiting`.

    Raises what it raises, or TimeoutError.
    """
    value: T
    try:
        waits_for = work.send(None)
    except StopIteration as finished:
        value = finished.value
        return value
    began = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(seconds):
            await _arrival(waits_for)
            value = await _rest(work)  # type: ignore[misc]  # what types.coroutine returns can be awaited
            return value
    finally:
        if waiting is not None:
            waiting.waited_s += asyncio.get_running_loop().time() - began
        work.close()


@types.coroutine
def _rest(work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Go on with work that has begun, which `await` itself refuses to do."""
    value: T = yield from work
    return value


async def _arrival(waits_for: "asyncio.Future[object] | None") -> None:
    """Wait for what the work was about to wait for; its result stays for the work to take."""
    if waits_for is None:
        await asyncio.sleep(0)
        return
    # The work has marked the future as handed to the task, which it was not: we wait for it in its place.
    waits_for._asyncio_future_blocking = False  # noqa: SLF001  the protocol between futures and tasks (asyncio.futures)
    await asyncio.wait({waits_for})
