"""Work that goes on as long as the process does: its death is the loudest line of the log, its end is waited for."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

log = logging.getLogger(__name__)

_AGAIN_S: Final = 1.0


def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Begin the work; a fault that ends it is logged as critical, with the work's name."""
    task = asyncio.get_running_loop().create_task(work, name=work.__qualname__)
    task.add_done_callback(_report_death)
    return task


async def stop(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel the tasks and wait until they have ended."""
    running = {task for task in tasks if task is not None and not task.done()}
    while running:
        # More than once: a Redis client may swallow a cancellation that meets an answer.
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_AGAIN_S)


def _report_death(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.critical("gateway.task_died", exc_info=fault, extra={"task": task.get_name()})
