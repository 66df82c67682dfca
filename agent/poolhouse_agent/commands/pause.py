"""`pause`: the owner wants the machine, now."""

import argparse
from datetime import UTC, datetime, timedelta

from poolhouse_agent import terminal
from poolhouse_agent.commands import options
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.owner import amounts, book
from poolhouse_agent.owner.book import Book
from poolhouse_agent.owner.standing import Pause
from poolhouse_agent.state import State


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "pause",
        help="take no new requests, let running ones end, free the GPUs",
        epilog="example: poolhouse-agent pause --for 2h30m",
    )
    parser.add_argument(
        "--for", dest="length", metavar="TIME", default="", help="come back by itself after TIME, such as 45m or 2h30m"
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Note the pause; a running agent hears it within a second. Raises ConfigError."""
    now = datetime.now(UTC).replace(microsecond=0)
    until = now + _length(arguments.length) if arguments.length else None
    state = State(arguments.state)
    if state.membership() is None:
        raise ConfigError("not_joined", f"{state.folder} knows of no pool")
    book.store(state, Book(book.load(state).set, Pause(now, until)))
    is_running = state.is_running()
    if arguments.json:
        told = until.isoformat() if until else None
        terminal.say_json({"paused": True, "until": told, "is_running": is_running})
        return 0
    end = f"until {until.astimezone():%Y-%m-%d %H:%M}" if until else "until `poolhouse-agent resume`"
    terminal.say(f"paused {end}" + ("" if is_running else " (the agent does not run now)"))
    return 0


def _length(text: str) -> timedelta:
    try:
        return timedelta(seconds=amounts.duration_s(text))
    except (ValueError, OverflowError) as error:
        raise ConfigError("config_invalid", str(error)) from None
