"""Starts an engine for a benchmark and ends it again: the smoke test of a machine that serves nothing yet."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from poolhouse_common import artefacts

from poolhouse_agent.benchmarks import engines
from poolhouse_agent.benchmarks.lengths import Lengths
from poolhouse_agent.benchmarks.step import Say, Step
from poolhouse_agent.checks.result import Result, Status, trouble
from poolhouse_agent.engine.choose import engine_for
from poolhouse_agent.engine.own import OwnEngine
from poolhouse_agent.engine.target import Target
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

_DEPLOYMENT = "benchmark"
_MOST_CONTEXT = 8192
_DEFAULT_CONTEXT = 4096
_START_S = 120


@dataclass(frozen=True, slots=True)
class Start:
    """How an engine is started for a benchmark: `kind` is vllm or simulate."""

    model: str
    kind: str
    at_once: int
    is_eager: bool = False


def step(start: Start, *, workshop: Workshop, lengths: Lengths) -> Step:
    """Start the model as the pool would, measure it, end it."""
    model = start.model
    folder = workshop.config.models.get(model)
    context = _context(folder.path) if folder else _DEFAULT_CONTEXT
    desired = Desired(
        _DEPLOYMENT, model, start.kind, "running", context_tokens=context, max_output_tokens=context // 2,
        max_concurrency=start.at_once, engine_args={"enforce_eager": True} if start.is_eager else {},
    )  # fmt: skip

    async def work(say: Say) -> list[Result]:
        try:
            wanted = await _with_digest(desired, folder.path) if folder else desired
            async with _running(wanted, workshop) as target:
                measuring = engines.step(workshop.http, target, context_tokens=context, lengths=lengths)
                return await measuring.work(say)
        except EngineError as error:
            return [replace(trouble("engine.smoke", Status.FAIL, error.code, error.detail), subject=model)]

    return Step("engine.smoke", f"engine: {model}", _START_S + lengths.serving_s, work, takes_gpus=True)


async def _with_digest(desired: Desired, folder: Path) -> Desired:
    """Here nobody else says which weights these should be: the owner's folder is what is wanted. Raises EngineError."""
    try:
        digest = await asyncio.to_thread(artefacts.folder_digest, folder)
    except OSError as error:
        raise EngineError("weights_missing", str(error)) from None
    return replace(desired, artefact_digest=digest)


@asynccontextmanager
async def _running(desired: Desired, workshop: Workshop) -> AsyncIterator[Target]:
    workshop.launcher.renew()
    engine = engine_for(desired, workshop)
    try:
        yield await engine.start()
    finally:
        if isinstance(engine, OwnEngine):
            engine.break_off()
        await engine.stop()


def _context(folder: Path) -> int:
    """The model's own length, as far as a benchmark needs it."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return _DEFAULT_CONTEXT
    length = config.get("max_position_embeddings") if isinstance(config, dict) else None
    return min(_MOST_CONTEXT, length) if isinstance(length, int) and length > 0 else _DEFAULT_CONTEXT
