"""`run`: serve the pool until stopped."""

import argparse
import asyncio
import os

from poolhouse_agent import config, logs, runtime
from poolhouse_agent.state import State
from poolhouse_agent.units import untraced


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("run", help="serve the pool until stopped (what the service runs)")
    parser.add_argument("--json", action="store_true", help="logs as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the agent. Raises AgentError."""
    logs.configure(as_json=arguments.json)
    untraced.within_service(os.environ)
    state = State(arguments.state)
    state.create()
    settings = config.load(arguments.config, environ=os.environ)
    with state.running():
        asyncio.run(runtime.run(state, settings))
    return 0
