"""Checks of the engine program, the weights and external servers."""

import asyncio
import contextlib
import re

from poolhouse_agent.checks.result import Result, Status, Surroundings, ok, skipped, trouble
from poolhouse_agent.engine import external, vllm, weights
from poolhouse_agent.errors import EngineError

_VERSION_S = 60.0
_OLDEST = (0, 22)
_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+\S*")


async def program(around: Surroundings) -> list[Result]:
    """A vLLM that is new enough."""
    if around.config.external and not around.config.models:
        return [skipped("engine", "only external servers are configured")]
    try:
        path = vllm.find_program(around.config.vllm, own=around.state.folder / vllm.OWN_PROGRAM)
    except EngineError as error:
        return [trouble("engine", Status.WARN, error.code, error.detail)]
    output = await _version(path)
    found = _VERSION.search(output)
    if found is None:
        return [trouble("engine", Status.FAIL, "engine_start_failed", f"{path} --version printed no version")]
    if (int(found[1]), int(found[2])) < _OLDEST:
        return [trouble("engine", Status.FAIL, "engine_version_unsupported", f"vLLM {found[0]}", path=path)]
    return [ok("engine", f"vLLM {found[0]}", path=path)]


async def folders(around: Surroundings) -> list[Result]:
    """Each folder of weights."""
    results = []
    for model, folder in sorted(around.config.models.items()):
        try:
            await asyncio.to_thread(weights.require_safe, folder.path)
        except EngineError as error:
            results.append(trouble("weights", Status.FAIL, error.code, f"{model}: {error.detail}"))
        else:
            results.append(ok("weights", f"{model} in {folder.path}"))
    return results or [skipped("weights", "no [models] are configured")]


async def servers(around: Surroundings) -> list[Result]:
    """Each external server's address."""
    results = []
    for model, server in sorted(around.config.external.items()):
        try:
            external.require_allowed(server.url, allowed=around.config.allowed_hosts)
        except EngineError as error:
            results.append(trouble("external", Status.FAIL, error.code, f"{model}: {error.detail}"))
        else:
            results.append(ok("external", f"{model} at {server.url}"))
    return results or [skipped("external", "no [external] servers are configured")]


async def _version(path: str) -> str:
    child = await asyncio.create_subprocess_exec(
        path, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_VERSION_S):
            output, _ = await child.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        return ""
    return output.decode("utf-8", "replace")
