"""`poolhouse-agent`: the command line."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from poolhouse_agent import VERSION, terminal
from poolhouse_agent.commands import (
    benchmark,
    doctor,
    engine,
    join,
    limits,
    pause,
    plan,
    power,
    receipts,
    schedule,
    serve,
    service,
    simulate,
    status,
    support_bundle,
    update,
    wishes,
)
from poolhouse_agent.config import DEFAULT_CONFIG, DEFAULT_STATE
from poolhouse_agent.errors import AgentError

_COULD_NOT_RUN = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is well, 1 a check failed, 2 could not run."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except AgentError as error:
        terminal.explain(error)
        return _COULD_NOT_RUN
    except KeyboardInterrupt:
        return _COULD_NOT_RUN


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    made = argparse.ArgumentParser(prog="poolhouse-agent", description="Joins a GPU server to a pool and serves it.")
    made.add_argument("--version", action="version", version=f"poolhouse-agent {VERSION}")
    made.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help=f"the configuration ({DEFAULT_CONFIG})")
    made.add_argument("--state", type=Path, default=DEFAULT_STATE, help=f"the state folder ({DEFAULT_STATE})")
    commands = made.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in (
        doctor,
        benchmark,
        join,
        serve,
        status,
        plan,
        wishes,
        pause,
        schedule,
        limits,
        power,
        receipts,
        support_bundle,
        engine,
        service,
        update,
        simulate,
    ):
        module.register(commands)
    return made


if __name__ == "__main__":
    sys.exit(main())
