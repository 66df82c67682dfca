"""`benchmark`: what GPUs, disk, network and engine really do. Needs no rights; the network part needs a membership."""

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from poolhouse_common import limits

from poolhouse_agent import VERSION, config, logs, terminal
from poolhouse_agent.benchmarks import lengths, suite
from poolhouse_agent.benchmarks.step import Step
from poolhouse_agent.benchmarks.suite import PARTS, Machine
from poolhouse_agent.checks.result import Result, Status
from poolhouse_agent.commands import options
from poolhouse_agent.commands.bench import Wish, bench
from poolhouse_agent.progress import Bars
from poolhouse_agent.state import State

_MARKS = {Status.OK: "ok  ", Status.WARN: "warn", Status.FAIL: "FAIL", Status.SKIP: "skip"}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("benchmark", help="measure this machine: GPUs, disk, network, engine")
    options.add_json(parser, schema="checks.schema.json")
    parser.add_argument("--only", choices=PARTS, default="", metavar="NAME", help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--short", action="store_true", help="a few minutes less, and less exact")
    parser.add_argument("--url", default="", help="an engine that runs on this machine, such as http://127.0.0.1:8000")
    parser.add_argument("--model", default="", help="the name the engine serves it under (where it serves several)")
    parser.add_argument("--at-once", type=int, default=64, metavar="N", help="try at most N requests at once")
    parser.add_argument("--eager", action="store_true", help="start engines without compiling: sooner, and slower")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print each result as it comes: 0 when nothing failed, 1 else. Raises ConfigError, EngineError."""
    logs.keep_off_terminal()
    settings = config.load(arguments.config, environ=os.environ)
    results = asyncio.run(_measure(arguments, State(arguments.state), settings))
    counts = Counter(result.status.value for result in results)
    if arguments.json:
        found = [result.as_json() for result in results]
        terminal.say_json({"checks": found, "summary": dict(counts), "agent_version": VERSION})
    else:
        terminal.say(", ".join(f"{counts[status.value]} {status.value}" for status in Status))
    return 1 if counts[Status.FAIL] else 0


async def _measure(arguments: argparse.Namespace, state: State, settings: config.Config) -> list[Result]:
    size = lengths.SHORT if arguments.short else lengths.WHOLE
    parts = [arguments.only] if arguments.only else list(PARTS)
    results: list[Result] = []
    wish = Wish(url=arguments.url, model=arguments.model, at_once=max(1, arguments.at_once), is_eager=arguments.eager)
    async with bench(state, settings) as found_here, found_here.engine_steps(wish, lengths=size) as more:
        machine = found_here.machine
        labels = {str(gpu["uuid"]): f"GPU {gpu['index']}" for gpu in machine.gpus.gpus}
        planned: list[Step] = suite.steps(machine, lengths=size, parts=parts, more=more)
        async for found in _found(machine, planned, parts, state):
            results += found
            if not arguments.json:
                for result in found:
                    say(result, labels)
    return results


async def _found(
    machine: Machine, planned: Sequence[Step], parts: Sequence[str], state: State
) -> AsyncIterator[list[Result]]:
    """What is known before anything is measured, and then the results of each step."""
    if "gpu" in parts:
        yield suite.left_out(machine.gpus)
    async for found in suite.run(planned, show=Bars(), may_take_gpus=lambda: not state.is_running()):
        yield found


def say(result: Result, labels: Mapping[str, str]) -> None:
    """Print one result, and what to do where something is wrong; `labels` name GPUs by their UUID."""
    mark = terminal.coloured(_MARKS[result.status], result.status.value)
    label = labels.get(result.subject, "")
    words = f"{label}: {result.sentence}" if label else result.sentence
    terminal.say(f"{mark}  {result.id:<21} {_figure(result):<17} {words}".rstrip())
    for row in result.evidence.get("table", ()):
        terminal.say(f"      {_row(row)}")
    if result.threshold and result.status is not Status.OK:
        terminal.say(f"      {'':<21} wanted: {result.threshold}")
    if result.fix and result.status is not Status.SKIP:
        terminal.say(f"      {'':<21} fix: {result.fix}")


def _figure(result: Result) -> str:
    return "" if result.figure is None else f"{limits.number(round(1000 * result.figure))} {result.unit}"


def _row(row: dict[str, Any]) -> str:
    first, gap = row["first_token_ms"], row["inter_token_ms"]
    return (
        f"prompt {row['prompt']:>5}, {row['at_once']:>3} at once: first token {first['p50']:>8.1f} ms "
        f"(p95 {first['p95']:.1f}), between tokens {gap['p50']:>6.1f} ms (p95 {gap['p95']:.1f}), "
        f"{row['output_tokens_per_s']:.0f} tokens/s"
    )
