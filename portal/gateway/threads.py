"""Blocking database calls of the control path, in a few threads, each with a deadline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Barrier, BrokenBarrierError
from typing import Final, TypeVar

from django.db import close_old_connections, connections

T = TypeVar("T")

_FAREWELL_S: Final = 5.0


class DatabaseThreads:
    """A small pool; a call that waits longer than its deadline raises TimeoutError."""

    def __init__(self, size: int = 4) -> None:
        self._size = size
        self._pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="database")

    async def run(self, function: Callable[..., T], *, timeout_s: float = 5.0, **arguments: object) -> T:
        """Call `function(**arguments)` in a thread. Raises what it raises, or TimeoutError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            return await loop.run_in_executor(self._pool, partial(_call, partial(function, **arguments)))

    def stop(self) -> None:
        """Close the threads' connections and end them, without waiting for a call that hangs."""
        close_connections(self._pool, self._size)
        self._pool.shutdown(wait=False, cancel_futures=False)


def close_connections(pool: ThreadPoolExecutor, size: int) -> None:
    """Close the database connections of all `size` threads of a pool, once in each."""
    everyone = Barrier(size)
    for _ in range(size):
        pool.submit(_close, everyone)


def _close(everyone: Barrier) -> None:
    # Nobody goes on before each thread has one of these calls; where one hangs, the others do not wait for ever.
    with suppress(BrokenBarrierError):
        everyone.wait(_FAREWELL_S)
    connections.close_all()


def _call(function: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return function()
    finally:
        close_old_connections()
