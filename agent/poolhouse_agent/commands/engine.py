"""`engine`: installs vLLM beside the agent, says which one is used, and ends engines that run without an agent."""

import argparse
import asyncio
import os
import subprocess
from pathlib import Path

from poolhouse_agent import config, terminal
from poolhouse_agent.commands import options
from poolhouse_agent.engine import install, notes, versions
from poolhouse_agent.engine.launch import LEASE, Launcher
from poolhouse_agent.engine.notes import Note
from poolhouse_agent.engine.process import EngineProcess, reap_leftovers
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.state import State

_VERSION_S = 120


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("engine", help="install vLLM, show which one is used, end engines left running")
    parser.add_argument("action", choices=("install", "status", "stop"))
    parser.add_argument("--version", default=versions.TESTED, help=f"the version to install ({versions.TESTED})")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do it. Raises AgentError."""
    state = State(arguments.state)
    match arguments.action:
        case "install":
            state.create()
            root = state.folder / versions.ROOT
            version = versions.require_sound(arguments.version)
            terminal.note(f"installing vLLM {version} below {root}; this takes minutes and some gigabytes")
            install.install(version, root=root)
        case "stop":
            return _stop(state, as_json=arguments.json)
    return _status(state, arguments)


def _status(state: State, arguments: argparse.Namespace) -> int:
    settings = config.load(arguments.config, environ=os.environ)
    root = state.folder / versions.ROOT
    found = versions.find(settings.vllm, root=root)
    version = found.version or _version(found.path)
    ready = versions.installed(root)
    running = [_shown(note) for note in notes.all_notes(state.engines) if note.is_live]
    value = {"program": found.path, "version": version, "tested_version": versions.TESTED}
    if arguments.json:
        terminal.say_json({**value, "installed": ready, "running": running})
    else:
        names = ", ".join(f"{one['deployment']} (process {one['pid']})" for one in running)
        terminal.table([*value.items(), ("installed", ", ".join(ready) or "none"), ("running", names or "none")])
    return 0 if version else 1


def _shown(note: Note) -> dict[str, object]:
    desired = note.ordered.get("desired", {})
    return {
        "deployment": note.folder.name,
        "model": desired.get("model", ""),
        "pid": note.pid,
        "log": str(note.folder / "engine.log"),
    }


def _stop(state: State, *, as_json: bool) -> int:
    """End every engine of this state folder; an agent that runs would start them again. Raises AgentError."""
    if state.is_running():
        raise ConfigError("agent_running", "the agent runs: use `poolhouse-agent drain` or stop its service first")
    ended = asyncio.run(_end_all(state))
    if as_json:
        terminal.say_json({"stopped": ended})
    else:
        terminal.say(f"{ended} engines stopped")
    return 0


async def _end_all(state: State) -> int:
    await reap_leftovers(state.engines)
    launcher = Launcher(state.folder / LEASE)
    running = notes.all_notes(state.engines)
    for note in running:
        engine = EngineProcess(note.folder, launcher)
        engine.adopt(note)
        await engine.stop()
    return len(running)


def _version(program: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  the owner's own program
            [program, "--version"], capture_output=True, text=True, check=False, timeout=_VERSION_S, cwd=Path("/")
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.split()
    return lines[-1] if done.returncode == 0 and lines else ""
