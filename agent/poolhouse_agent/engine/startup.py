"""Waiting for an engine's port and list of models."""

import asyncio

import aiohttp

from poolhouse_agent.engine import readiness
from poolhouse_agent.engine.process import EngineProcess
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError

_POLL_S = 0.1


async def wait_until_listed(
    http: aiohttp.ClientSession, target: Target, process: EngineProcess, *, deadline_s: float
) -> None:
    """Wait until the engine lists its models. Raises EngineError when it ends or takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    while loop.time() < deadline:
        if process.exit_status is not None:
            raise EngineError("engine_start_failed", f"exit status {process.exit_status}")
        try:
            await readiness.listed_models(http, target)
        except EngineError:
            await asyncio.sleep(_POLL_S)
        else:
            return
    raise EngineError("engine_start_timeout", f"not up after {deadline_s:.0f} s")
