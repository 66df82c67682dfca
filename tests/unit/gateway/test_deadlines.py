"""Work within a deadline: what needs no wait pays for none, what waits too long is ended."""

import asyncio

import pytest

from portal.gateway.deadlines import within


class _Work:
    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.ended = ""

    async def run(self) -> str:
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.ended = "canceled"
            raise
        except GeneratorExit:
            self.ended = "closed"
            raise
        self.ended = "well"
        return "done"


async def test_work_that_needs_no_wait() -> None:
    work = _Work()
    work.gate.set()

    assert await within(1, work.run()) == "done"


async def test_work_that_waits_and_ends_in_time() -> None:
    work = _Work()
    asyncio.get_running_loop().call_later(0.01, work.gate.set)

    assert await within(1, work.run()) == "done"
    assert work.ended == "well"


async def test_work_that_waits_too_long_is_ended() -> None:
    work = _Work()

    with pytest.raises(TimeoutError):
        await within(0.01, work.run())

    assert work.ended in {"canceled", "closed"}


async def test_work_that_waits_too_long_at_its_second_wait() -> None:
    async def run() -> None:
        await asyncio.sleep(0.001)
        await asyncio.sleep(5)

    with pytest.raises(TimeoutError):
        await within(0.02, run())


async def test_errors_come_through() -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def at_once() -> None:
        raise OSError("gone")

    async def later() -> None:
        await failing

    with pytest.raises(OSError, match="gone"):
        await within(1, at_once())
    asyncio.get_running_loop().call_later(0.01, failing.set_exception, OSError("gone later"))
    with pytest.raises(OSError, match="gone later"):
        await within(1, later())


async def test_a_canceled_caller_ends_the_work() -> None:
    work = _Work()
    caller = asyncio.create_task(within(5, work.run()))
    await asyncio.sleep(0.01)

    caller.cancel()

    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.ended in {"canceled", "closed"}
