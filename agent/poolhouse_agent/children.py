"""Children never outlive the wait for them: they are killed and taken in, unless the kernel holds them."""

import asyncio
import contextlib

_KILL_S = 2.0


async def answer(child: asyncio.subprocess.Process, *, deadline_s: float) -> bytes | None:
    """Return what the child printed until its end; None where it did not end in time. A cancelled wait ends it too."""
    try:
        async with asyncio.timeout(deadline_s):
            output, _ = await child.communicate()
    except TimeoutError:
        return None
    finally:
        if child.returncode is None:
            await end(child)
    return output


async def end(child: asyncio.subprocess.Process) -> bool:
    """Kill a child; tell whether the kernel let it die."""
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    try:
        async with asyncio.timeout(_KILL_S):
            await child.wait()
    except TimeoutError:
        return False
    return True
