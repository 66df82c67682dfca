"""`benchmark`: what GPUs, disk, network and engine really do. Needs no rights; the network part needs a membership."""

import argparse
import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from poolhouse_common import limits

from poolhouse_agent import VERSION, config, identity, logs, terminal
from poolhouse_agent.benchmarks import engine_python, engines, exchange, lengths, suite
from poolhouse_agent.benchmarks.programs import TorchPrograms
from poolhouse_agent.benchmarks.step import Step
from poolhouse_agent.benchmarks.suite import PARTS, Machine
from poolhouse_agent.checks.result import Result, Status
from poolhouse_agent.client import PortalClient
from poolhouse_agent.engine import http
from poolhouse_agent.engine.external import require_allowed
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError
from poolhouse_agent.nvml.inventory import Inventory
from poolhouse_agent.progress import Bars
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.state import Membership, State

_MARKS = {Status.OK: "ok  ", Status.WARN: "warn", Status.FAIL: "FAIL", Status.SKIP: "skip"}
_SCRATCH = Path("/var/tmp")  # noqa: S108  a file of random bytes, removed again


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("benchmark", help="measure this machine: GPUs, disk, network, engine")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=PARTS, default="", metavar="NAME", help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--short", action="store_true", help="a few minutes less, and less exact")
    parser.add_argument("--url", default="", help="an engine that runs on this machine, such as http://127.0.0.1:8000")
    parser.add_argument("--model", default="", help="the name the engine serves it under (where it serves several)")
    parser.add_argument("--at-once", type=int, default=64, metavar="N", help="try at most N requests at once")
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
    async with _machine(state, settings) as machine, http.engine_session() as session:
        more = [engines.step(session, target, lengths=size) for target in _targets(arguments, settings)]
        labels = {str(gpu["uuid"]): f"GPU {gpu['index']}" for gpu in machine.gpus.gpus}
        planned: list[Step] = suite.steps(machine, lengths=size, parts=parts, more=more)
        running = suite.run(planned, show=Bars(), may_take_gpus=lambda: not state.is_running())
        async for found in running:
            results += found
            if not arguments.json:
                for result in found:
                    say(result, labels)
    return results


def _targets(arguments: argparse.Namespace, settings: config.Config) -> list[Target]:
    if arguments.url:
        require_allowed(arguments.url, allowed=settings.allowed_hosts)
        return [Target(arguments.url.rstrip("/"), arguments.model, max(1, arguments.at_once), headers=_key())]
    targets = engines.external_targets(settings, at_once=max(1, arguments.at_once))
    return [target for target in targets if arguments.model in {"", target.served_name}]


def _key() -> dict[str, str]:
    key = os.environ.get("POOLHOUSE_ENGINE_KEY", "")
    return {"authorization": f"Bearer {key}"} if key else {}


@contextlib.asynccontextmanager
async def _machine(state: State, settings: config.Config) -> AsyncIterator[Machine]:
    membership = state.membership() if state.folder.exists() else None
    folder = state if os.access(state.folder, os.W_OK) else State(_SCRATCH)
    async with contextlib.AsyncExitStack() as stack:
        machine = await _simulated(membership, folder) if _is_simulated(membership) else await _real(settings, folder)
        if membership is not None and not state.is_running():
            client = await stack.enter_async_context(PortalClient(membership.server))
            sessions = SessionKeeper(client, identity.load(state.key_file), node=membership.node)
            machine = replace(machine, exchange=exchange.with_portal(client, sessions))
        yield machine


def _is_simulated(membership: Membership | None) -> bool:
    return membership is not None and bool(membership.simulate)


async def _real(settings: config.Config, folder: State) -> Machine:
    inventory = Inventory(library=settings.nvml)
    report = await inventory.read()
    try:
        python = engine_python.find(settings, folder)
    except EngineError as error:
        return Machine(folder, report, inventory, None, why_no_programs=error.detail)
    return Machine(folder, report, inventory, TorchPrograms(python))


async def _simulated(membership: Membership | None, folder: State) -> Machine:
    from poolhouse_agent.simulate import inventory, profile
    from poolhouse_agent.simulate.programs import SimulatedPrograms

    wanted = profile.parse(membership.simulate if membership else "")
    gpus = inventory.SimulatedInventory(wanted.gpus, node=membership.node if membership else "")
    return Machine(folder, gpus.latest, gpus, SimulatedPrograms(list(gpus.latest.gpus)))


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
