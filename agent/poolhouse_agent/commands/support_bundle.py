"""`support-bundle`: one file for somebody who helps; it holds no secrets and no text of requests, and goes nowhere."""

import argparse
import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

from poolhouse_agent import config, terminal
from poolhouse_agent.commands import options
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.state import State
from poolhouse_agent.support import bundle


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "support-bundle",
        help="write one file for somebody who helps; nothing is sent",
        epilog="example: sudo poolhouse-agent support-bundle --output /tmp/support.tar.gz",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to (poolhouse-support-TIME.tar.gz here)")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the bundle. Raises ConfigError."""
    now = datetime.now(UTC)
    output = arguments.output or Path(f"poolhouse-support-{now:%Y%m%d-%H%M%S}.tar.gz")
    bundle.require_folder(output.absolute())
    source = bundle.Source(State(arguments.state), config.load(arguments.config, environ=os.environ), arguments.config)
    files = asyncio.run(bundle.gather(source, now=now))
    _write(output, bundle.pack(files, now=now))
    if arguments.json:
        terminal.say_json({"file": str(output.absolute()), "holds": sorted(files)})
        return 0
    terminal.say(f"{output.absolute()} holds:")
    for name in sorted(files):
        terminal.say(f"  {name}")
    terminal.say(
        "Secrets and texts of requests are left out. Nothing was sent: look into it, then pass it on yourself."
    )
    return 0


def _write(path: Path, content: bytes) -> None:
    """Write a file of the caller's own, never through a link that somebody put there. Raises ConfigError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        raise ConfigError("state_unwritable", f"{path}: {error.strerror}; choose a place with --output") from None
