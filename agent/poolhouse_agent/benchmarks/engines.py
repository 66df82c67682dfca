"""The engine's step of a suite: which server is asked, and what it costs it."""

from collections.abc import Callable
from dataclasses import replace

import aiohttp

from poolhouse_agent.benchmarks.lengths import Lengths
from poolhouse_agent.benchmarks.serving import ServingBenchmark
from poolhouse_agent.benchmarks.step import Say, Step
from poolhouse_agent.checks.result import Result, Status, trouble
from poolhouse_agent.config import Config, ExternalServer
from poolhouse_agent.engine import readiness
from poolhouse_agent.engine.external import key_header, require_allowed
from poolhouse_agent.engine.readiness import Proof
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError

_DEFAULT_CONTEXT = 4096
_AT_ONCE = 64


def step(
    http: aiohttp.ClientSession,
    target: Target,
    *,
    context_tokens: int | None = None,
    lengths: Lengths,
    note: Callable[[Proof], None] = lambda _: None,
) -> Step:
    """Measure a running engine; `note` is told what the engine counted for it, also where the step is cancelled."""

    async def work(say: Say) -> list[Result]:
        try:
            context = context_tokens or await _context(http, target)
        except EngineError as error:
            found = trouble("engine.smoke", Status.FAIL, error.code, f"{target.served_name}: {error.detail}")
            return [replace(found, subject=target.served_name)]
        benchmark = ServingBenchmark(http, target, context, lengths)
        try:
            return await benchmark.run(say)
        finally:
            note(benchmark.spent)

    return Step("engine.smoke", f"engine: {target.served_name}", lengths.serving_s, work)


def external_targets(config: Config, *, at_once: int = _AT_ONCE) -> list[Target]:
    """The servers that the owner's configuration names. Raises EngineError."""
    return [_target(server, model, config, at_once) for model, server in sorted(config.external.items())]


def _target(server: ExternalServer, model: str, config: Config, at_once: int) -> Target:
    require_allowed(server.url, allowed=config.allowed_hosts)
    return Target(server.url, server.served_name or model, at_once, headers=key_header(server))


async def _context(http: aiohttp.ClientSession, target: Target) -> int:
    models = await readiness.listed_models(http, target)
    if target.served_name not in models and len(models) == 1:
        target.served_name = next(iter(models))
    return models.get(target.served_name) or _DEFAULT_CONTEXT
