"""Checks of the engine program, the weights and external servers."""

import asyncio
import re
from dataclasses import replace

from poolhouse_agent import children
from poolhouse_agent.checks.result import Result, Status, Surroundings, ok, skipped, trouble
from poolhouse_agent.engine import external, versions, weights
from poolhouse_agent.errors import EngineError

_VERSION_S = 60.0
_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+\S*")


async def program(around: Surroundings) -> list[Result]:
    """A vLLM that is new enough."""
    if _is_simulated(around):
        return [skipped("engine", "this node is simulated and needs none")]
    if around.config.external and not around.config.models:
        return [skipped("engine", "only external servers are configured")]
    try:
        found = versions.find(around.config.vllm, root=around.state.folder / versions.ROOT)
    except EngineError as error:
        return [trouble("engine", Status.WARN, error.code, error.detail)]
    try:
        version = found.version or await _version(found.path)
    except OSError as error:  # another machine's program, or a script whose interpreter is gone
        return [trouble("engine", Status.FAIL, "engine_start_failed", f"{found.path}: {error.strerror}")]
    return [_of_version(version, found.path)]


def _of_version(version: str, path: str) -> Result:
    if not version:
        return trouble("engine", Status.FAIL, "engine_start_failed", f"{path} --version printed no version")
    if versions.is_below_floor(version):
        lowest = ".".join(map(str, versions.FLOOR))
        result = trouble("engine", Status.FAIL, "engine_version_unsupported", f"vLLM {version}", path=path)
        return replace(result, threshold=f"vLLM {lowest} or newer")
    return ok("engine", f"vLLM {version}", path=path)


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


def _is_simulated(around: Surroundings) -> bool:
    found = around.state.membership() if around.state.folder.exists() else None
    return found is not None and bool(found.simulate)


async def _version(path: str) -> str:
    """What the program prints of its version, empty where it prints none. Raises OSError where it cannot be started."""
    child = await asyncio.create_subprocess_exec(
        path, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    output = await children.answer(child, deadline_s=_VERSION_S)
    found = _VERSION.search((output or b"").decode("utf-8", "replace"))
    return found[0] if found else ""
