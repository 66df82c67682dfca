"""Starts an engine for a benchmark and ends it again: the smoke test of a machine that serves nothing yet."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

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


def step(model: str, *, kind: str, workshop: Workshop, at_once: int, lengths: Lengths) -> Step:
    """Start `model` as the pool would (`kind` is vllm or simulate), measure it, end it."""
    folder = workshop.config.models.get(model)
    context = _context(folder.path) if folder else _DEFAULT_CONTEXT
    desired = Desired(
        _DEPLOYMENT, model, kind, "running", context_tokens=context, max_output_tokens=context // 2,
        max_concurrency=at_once,
    )  # fmt: skip

    async def work(say: Say) -> list[Result]:
        try:
            async with _running(desired, workshop) as target:
                measuring = engines.step(workshop.http, target, context_tokens=context, lengths=lengths)
                return await measuring.work(say)
        except EngineError as error:
            return [replace(trouble("engine.smoke", Status.FAIL, error.code, error.detail), subject=model)]

    return Step("engine.smoke", f"engine: {model}", _START_S + lengths.serving_s, work, takes_gpus=True)


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
