"""`status`: what the running agent did last."""

import argparse

from poolhouse_agent import terminal
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.state import State


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("status", help="what the running agent does")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it: 0 while the node is in order, 1 when something is wrong. Raises ConfigError."""
    state = State(arguments.state)
    membership = state.membership()
    if membership is None:
        raise ConfigError("not_joined", f"{state.folder} knows of no pool")
    is_running = state.is_running()
    written = (state.status() or {}) if is_running else {}
    status = {
        "node": membership.node, "provider": membership.provider, "server": membership.server, "name": membership.name,
        "simulate": membership.simulate, "wish": state.wish().value, **written, "is_running": is_running,
    }  # fmt: skip
    if arguments.json:
        terminal.say_json(status)
    else:
        _print(status)
    return 0 if is_running and status.get("tunnel") == "connected" else 1


def _print(status: dict[str, object]) -> None:
    running = terminal.coloured("running", "ok") if status["is_running"] else terminal.coloured("not running", "fail")
    terminal.say(f"{status['node']} of {status['server']}: {running}")
    rows = [(name, status[name]) for name in ("node_state", "wish", "tunnel", "written_at") if status.get(name)]
    terminal.table(rows)
    portal = status.get("portal")
    if isinstance(portal, dict) and portal.get("code"):
        terminal.say(f"  portal: {portal['code']}: {portal.get('detail', '')}")
        terminal.say(f"    fix: {portal.get('fix', '')}")
    for name in ("gpus", "gpu_errors", "deployments"):
        entries = status.get(name)
        if isinstance(entries, list) and entries:
            terminal.say(f"{name.replace('_', ' ')}:")
            terminal.table([_row(name, entry) for entry in entries])


def _row(kind: str, entry: dict[str, object]) -> tuple[object, ...]:
    match kind:
        case "gpus":
            return entry.get("index"), entry.get("name"), entry.get("uuid")
        case "gpu_errors":
            return entry.get("code"), entry.get("detail")
    return entry.get("model"), entry.get("state"), entry.get("code"), entry.get("detail")
