"""Children do not outlive the wait for them."""

import asyncio
import os

import pytest
from poolhouse_agent import children


async def _start(*argv: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_what_a_child_printed_is_its_answer() -> None:
    child = await _start("sh", "-c", "echo yes; exit 3")

    said = await children.answer(child, deadline_s=30)

    assert (said, child.returncode) == (b"yes\n", 3)


async def test_one_that_is_late_is_killed_and_taken_in() -> None:
    child = await _start("sleep", "600")

    said = await children.answer(child, deadline_s=0.1)

    assert said is None
    assert child.returncode == -9
    assert _is_gone(child.pid)


async def test_one_whose_answer_nobody_wants_any_more_is_killed_and_taken_in() -> None:
    child = await _start("sleep", "600")
    waiting = asyncio.create_task(children.answer(child, deadline_s=600))
    await asyncio.sleep(0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert child.returncode == -9
    assert _is_gone(child.pid)
