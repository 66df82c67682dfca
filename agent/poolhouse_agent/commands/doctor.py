"""`doctor`: what this software can and cannot do on this machine. Needs no rights and no membership."""

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Sequence

from poolhouse_agent import VERSION, addresses, config, logs, terminal
from poolhouse_agent.benchmarks.step import Step
from poolhouse_agent.checks import run as checks
from poolhouse_agent.checks.abilities import Ability, abilities
from poolhouse_agent.checks.result import Result, Status, Surroundings
from poolhouse_agent.commands import options
from poolhouse_agent.nvml.inventory import GpuReport, Inventory
from poolhouse_agent.progress import Bars
from poolhouse_agent.state import Membership, State

_MARKS = {Status.OK: "ok  ", Status.WARN: "warn", Status.FAIL: "FAIL", Status.SKIP: "skip"}
_WITH_GPUS = frozenset({"", "gpu"})


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="check this machine, before and after joining",
        epilog="example: poolhouse-agent doctor --server https://pool.example",
    )
    options.add_json(parser, schema="checks.schema.json")
    names = ", ".join(sorted(checks.CHECKS))
    parser.add_argument(
        "--only", choices=sorted(checks.CHECKS), default="", metavar="NAME", help=f"one group of checks: {names}"
    )
    parser.add_argument("--server", default="", metavar="URL", help="a pool to try to reach before joining it")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found: 0 when nothing failed, 1 else. Raises ConfigError, PortalError."""
    logs.keep_off_terminal()
    settings = config.load(arguments.config, environ=os.environ)
    server = addresses.portal_url(arguments.server) if arguments.server else ""
    results = asyncio.run(_look(State(arguments.state), settings, arguments.only, server))
    counts = Counter(result.status.value for result in results)
    can = [] if arguments.only else abilities(results)
    if arguments.json:
        terminal.say_json({
            "checks": [result.as_json() for result in results], "summary": dict(counts),
            "abilities": [one.as_json() for one in can], "agent_version": VERSION,
        })  # fmt: skip
    else:
        show(results, can)
    return status_of(results)


def status_of(results: Sequence[Result]) -> int:
    """The exit code: 1 where a check failed."""
    return int(any(result.status is Status.FAIL for result in results))


async def _look(state: State, settings: config.Config, only: str, server: str) -> list[Result]:
    bars, report = Bars(), GpuReport()
    groups = [only] if only else list(checks.CHECKS)
    if only in _WITH_GPUS:
        report = await _gpus(_membership(state), settings)
    around, results = Surroundings(state, settings, report, server), []
    for number, group in enumerate(groups, start=1):
        bars.begin(Step(group, f"looking at {group}", 1, _nothing), number, len(groups))
        results += await checks.run(around, only=group)
        bars.end()
    return results


async def _nothing(_say: object) -> list[Result]:
    return []


def _membership(state: State) -> Membership | None:
    return state.membership() if state.folder.exists() else None


async def _gpus(membership: Membership | None, settings: config.Config) -> GpuReport:
    if membership is None or not membership.simulate:
        return await Inventory(library=settings.nvml).read()
    from poolhouse_agent.simulate import inventory, profile

    return inventory.SimulatedInventory(profile.parse(membership.simulate).gpus, node=membership.node).latest


def show(results: Sequence[Result], can: Sequence[Ability]) -> None:
    """Print the results with their fixes, then what this machine can and cannot do."""
    for result in results:
        mark = terminal.coloured(_MARKS[result.status], result.status.value)
        terminal.say(f"{mark}  {result.id:<11} {result.sentence}")
        if result.fix:
            terminal.say(f"      {'':<11} fix: {result.fix}")
    for one in can:
        word = "This machine can" if one.is_possible else "This machine cannot"
        terminal.say(f"{word} {one.what}" + (f": {one.why}" if one.why else "."))
