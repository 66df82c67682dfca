"""Tells several waiters that something changed."""

import asyncio


class Bell:
    """Counts changes; a waiter never misses one that happened since it last looked."""

    def __init__(self) -> None:
        self.count = 0
        self._next: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake all who wait."""
        self.count += 1
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None

    async def after(self, count: int) -> int:
        """Wait until the count is above `count`; return it."""
        while self.count <= count:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._next)
        return self.count
