"""Work beside requests: it ends when it is told to, and does not die unheard."""

import asyncio
import logging

import pytest

from portal.gateway import background


async def _wait_for_ever() -> None:
    await asyncio.Event().wait()


async def test_one_that_swallows_a_cancellation_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_AGAIN_S", 0.01)
    swallowed = 0

    async def deaf() -> None:
        nonlocal swallowed
        while True:
            try:
                await _wait_for_ever()
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed == 3:
                    raise

    task, other = background.start(deaf()), background.start(_wait_for_ever())
    await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await background.stop(task, None, other)

    assert (swallowed, task.cancelled(), other.cancelled()) == (3, True, True)


async def test_a_fault_that_ends_it_is_critical_and_names_it(caplog: pytest.LogCaptureFixture) -> None:
    async def faulty() -> None:
        raise ZeroDivisionError

    task = background.start(faulty())
    await asyncio.wait({task})
    await asyncio.sleep(0)

    (line,) = [row for row in caplog.records if row.levelno == logging.CRITICAL]
    assert line.message == "gateway.task_died"
    assert "faulty" in line.__dict__["task"]
    assert line.exc_info is not None
    assert line.exc_info[0] is ZeroDivisionError


async def test_an_orderly_end_is_no_death(caplog: pytest.LogCaptureFixture) -> None:
    task = background.start(_wait_for_ever())
    await asyncio.sleep(0)
    await background.stop(task)

    assert caplog.records == []
