"""`update`: releases of the agent itself: what is offered, whether they may come, and taking one."""

import argparse
import os

from poolhouse_agent import VERSION, installation, terminal
from poolhouse_agent.commands import options
from poolhouse_agent.commands.service import Manager
from poolhouse_agent.errors import ConfigError, UpdateError
from poolhouse_agent.state import State
from poolhouse_agent.units.render import AGENT
from poolhouse_agent.updates import applying
from poolhouse_agent.updates.applying import Outcome, Surroundings
from poolhouse_agent.updates.standing import Updates


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("update", help="updates of the agent itself")
    parser.add_argument(
        "action", choices=("status", "hold", "allow", "now", "apply"), help="apply: what the update service runs"
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do it. Raises AgentError."""
    state = State(arguments.state)
    updates = Updates(state, installation.here())
    match arguments.action:
        case "hold" | "allow":
            updates.hold(is_held=arguments.action == "hold")
        case "now" | "apply":
            return _apply(state, updates, is_asked=arguments.action == "now")
    return _status(state, updates, as_json=arguments.json)


def _status(state: State, updates: Updates, *, as_json: bool) -> int:
    value = {"version": VERSION, "wanted": wanted(state), **updates.told()}
    if as_json:
        terminal.say_json(value)
    else:
        terminal.table(list(value.items()))
    return 0


def _apply(state: State, updates: Updates, *, is_asked: bool) -> int:
    """Judge what an earlier run left, then take the wanted release. Raises AgentError."""
    around = _surroundings(state)
    judged = applying.finish_interrupted(around, present=VERSION)
    if judged is not None:
        return _say(judged)
    version = due(state, updates, is_asked=is_asked)
    return _say(applying.apply(around, version=version, present=VERSION)) if version else 0


def due(state: State, updates: Updates, *, is_asked: bool) -> str:
    """Return the wanted version if it is to be taken now, else say why not. Raises UpdateError `updates_held`.

    What the agent asked for stays written and is read at every boot, long after it has failed.
    """
    version = wanted(state)
    if not version or version == VERSION:
        terminal.note("no release is wanted")
        return ""
    if updates.policy == "held" and not is_asked:
        raise UpdateError("updates_held", f"{version} waits")
    if updates.has_failed(version) and not is_asked:
        terminal.note(
            f"{version} failed here and is not tried again; `poolhouse-agent update now` tries it all the same"
        )
        return ""
    return version


def _surroundings(state: State) -> Surroundings:
    installed = installation.here()
    if installed is None:
        raise UpdateError("not_installed", "this agent has no folder of versions")
    manager = Manager(is_user=os.geteuid() != 0)
    manager.require()
    return Surroundings(installed, state, lambda: manager.call("restart", AGENT))


def wanted(state: State) -> str:
    """Return the version that the agent asked for, or an empty text."""
    try:
        value: object = state.read(applying.WANTED)
    except ConfigError:
        return ""
    version = value.get("version") if isinstance(value, dict) else ""
    return version if isinstance(version, str) else ""


def _say(outcome: Outcome) -> int:
    if not outcome.code:
        terminal.say(f"{outcome.version} runs and has reached the pool")
        return 0
    terminal.explain(UpdateError(outcome.code, outcome.detail))
    return 1
