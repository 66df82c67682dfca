"""Blocking database calls of the control path, in a few threads, each with a deadline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from django.db import close_old_connections, connections

T = TypeVar("T")


class DatabaseThreads:
    """A small pool; a call that waits longer than its deadline raises TimeoutError."""

    def __init__(self, size: int = 4) -> None:
        self._pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="database")

    async def run(self, function: Callable[..., T], *, timeout_s: float = 5.0, **arguments: object) -> T:
        """Call `function(**arguments)` in a thread. Raises what it raises, or TimeoutError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            return await loop.run_in_executor(self._pool, partial(_call, partial(function, **arguments)))

    def stop(self) -> None:
        """Close the threads' connections and end them, without waiting for a call that hangs."""
        for _ in range(self._pool._max_workers):  # noqa: SLF001  the pool has no word for "once in each thread"
            self._pool.submit(connections.close_all)
        self._pool.shutdown(wait=False, cancel_futures=False)


def _call(function: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return function()
    finally:
        close_old_connections()
