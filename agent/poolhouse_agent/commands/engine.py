"""`engine`: installs vLLM beside the agent, and says which one is used."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from poolhouse_agent import config, terminal
from poolhouse_agent.engine import vllm
from poolhouse_agent.errors import ConfigError, EngineError
from poolhouse_agent.state import State

TESTED_VERSION = "0.32.0"
_VERSION_S = 120


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("engine", help="install vLLM, or show which one is used")
    parser.add_argument("action", choices=("install", "status"))
    parser.add_argument("--version", default=TESTED_VERSION, help=f"the version to install ({TESTED_VERSION})")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do it. Raises AgentError."""
    state = State(arguments.state)
    if arguments.action == "install":
        _install(state, arguments.version)
    return _status(state, arguments)


def _install(state: State, version: str) -> None:
    """Put vLLM into a venv below the state folder. Raises EngineError."""
    if not version.replace(".", "").isalnum():
        raise ConfigError("config_invalid", f"{version!r} is not a version")
    state.create()
    folder = state.vllm_venv
    terminal.note(f"installing vLLM {version} into {folder}; this takes minutes and some gigabytes")
    _call(sys.executable, "-m", "venv", str(folder))
    _call(str(folder / "bin" / "pip"), "install", "--disable-pip-version-check", f"vllm=={version}")


def _status(state: State, arguments: argparse.Namespace) -> int:
    settings = config.load(arguments.config, environ=os.environ)
    program = vllm.find_program(settings.vllm, own=state.folder / vllm.OWN_PROGRAM)
    value = {"program": program, "version": _version(program), "tested_version": TESTED_VERSION}
    if arguments.json:
        terminal.say_json(value)
    else:
        terminal.table(list(value.items()))
    return 0 if value["version"] else 1


def _version(program: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  the owner's own program
            [program, "--version"], capture_output=True, text=True, check=False, timeout=_VERSION_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.split()
    return lines[-1] if done.returncode == 0 and lines else ""


def _call(*argv: str) -> None:
    if subprocess.run(argv, check=False, stdout=sys.stderr).returncode:  # noqa: S603  fixed words
        raise EngineError("engine_missing", f"{Path(argv[0]).name} failed; its output is above")
