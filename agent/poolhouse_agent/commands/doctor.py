"""`doctor`: what this software can and cannot do on this machine. Needs no rights and no membership."""

import argparse
import asyncio
import os
from collections import Counter

from poolhouse_agent import VERSION, config, terminal
from poolhouse_agent.checks import run as checks
from poolhouse_agent.checks.result import Result, Status, Surroundings
from poolhouse_agent.nvml.inventory import GpuReport, Inventory
from poolhouse_agent.state import Membership, State

_MARKS = {Status.OK: "ok  ", Status.WARN: "warn", Status.FAIL: "FAIL", Status.SKIP: "skip"}
_GROUPS_WITH_GPUS = frozenset({"", "gpu"})


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("doctor", help="check this machine, before and after joining")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=sorted(checks.CHECKS), default="", metavar="NAME", help="one group of checks")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found: 0 when nothing failed, 1 else. Raises ConfigError."""
    settings = config.load(arguments.config, environ=os.environ)
    results = asyncio.run(_look(State(arguments.state), settings, arguments.only))
    counts = Counter(result.status.value for result in results)
    if arguments.json:
        found = [result.as_json() for result in results]
        terminal.say_json({"checks": found, "summary": dict(counts), "agent_version": VERSION})
    else:
        _print(results)
    return 1 if counts[Status.FAIL] else 0


async def _look(state: State, settings: config.Config, only: str) -> list[Result]:
    report = GpuReport()
    if only in _GROUPS_WITH_GPUS:
        report = await _gpus(_membership(state), settings)
    return await checks.run(Surroundings(state, settings, report), only=only)


def _membership(state: State) -> Membership | None:
    return state.membership() if state.folder.exists() else None


async def _gpus(membership: Membership | None, settings: config.Config) -> GpuReport:
    if membership is None or not membership.simulate:
        return await Inventory(library=settings.nvml).read()
    from poolhouse_agent.simulate import inventory, profile

    return inventory.SimulatedInventory(profile.parse(membership.simulate).gpus, node=membership.node).latest


def _print(results: list[Result]) -> None:
    for result in results:
        mark = terminal.coloured(_MARKS[result.status], result.status.value)
        code = f" [{result.code}]" if result.code else ""
        terminal.say(f"{mark}  {result.id:<11} {result.detail}{code}")
        if result.fix:
            terminal.say(f"      {'':<11} fix: {result.fix}")
