"""A line of the kind that owners have: slow, lossy, dead without a word. TCP in, TCP out, whole but late."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

_SEGMENT = 1448
_RETRANSMIT_S = 0.25
_CHUNKS = 64


class BadLine:
    """Forwards connections of a port of its own; each byte comes `delay_s` later, and in order.

    A lost segment is sent again by TCP: here it holds up all that comes behind it on its connection, as there.
    """

    def __init__(self, port: int, *, delay_s: float = 0.0, loss: float = 0.0, seed: int = 1) -> None:
        self.port = 0
        self.lost = 0
        self._target = port
        self._delay_s = delay_s
        self._loss = loss
        self._chance = random.Random(seed)  # noqa: S311  luck that can be repeated, not a secret
        self._works = asyncio.Event()
        self._works.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["BadLine"]:
        """Listen."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def die(self) -> None:
        """Carry nothing any more, and close nothing."""
        self._works.clear()

    def heal(self) -> None:
        """Carry on."""
        self._works.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._works.wait()
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._start(self._carry(reader, back))
        self._start(self._carry(there, writer))

    def _start(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS)
        delivering = asyncio.ensure_future(self._deliver(under_way, writer))
        loop, free_at = asyncio.get_running_loop(), 0.0
        try:
            while True:
                chunk = await reader.read(65_536)
                free_at = max(free_at, loop.time() + self._delay_s + self._held_up_s(len(chunk)))
                await under_way.put((free_at, chunk))
                if not chunk:
                    await delivering
                    return
        except ConnectionError:
            await under_way.put((free_at, b""))
        finally:
            delivering.cancel()
            writer.close()

    def _held_up_s(self, size: int) -> float:
        segments = -(-size // _SEGMENT)
        lost = sum(self._chance.random() < self._loss for _ in range(segments))
        self.lost += lost
        return lost * _RETRANSMIT_S

    async def _deliver(self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_at, chunk = await under_way.get()
            await asyncio.sleep(max(0.0, due_at - loop.time()))
            await self._works.wait()
            if not chunk:
                return
            writer.write(chunk)
            await writer.drain()
