"""`simulate`: a whole fleet on one machine, to see what a pool does with it."""

import argparse
import asyncio
import logging
import re
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolhouse_agent import addresses, logs, terminal
from poolhouse_agent.commands import options
from poolhouse_agent.errors import ConfigError

if TYPE_CHECKING:
    from poolhouse_agent.simulate.fleet.fleet import Plan

_DURATION = re.compile(r"([0-9]{1,7})([smh]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_MAX_NODES = 5_000
_FILES_A_NODE = 12
_RAMP_S = 20.0
_STARTING_A_SECOND = 5
_LINE_EVERY_S = 30.0
_SAY_EVERY = 100
_EXAMPLE = (
    "example: poolhouse-agent simulate --server http://127.0.0.1:8000 --nodes 1000 --tokens-file tokens.txt \\\n"
    "             --duration 10m --mix healthy=90,flapping=10"
)


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    from poolhouse_agent.simulate.fleet import mix

    parser = commands.add_parser(
        "simulate",
        help="run a whole simulated fleet against a pool",
        description="Runs many simulated nodes in one process, each with a key, session, heartbeat and\n"
        "tunnel of its own. The pool sees them as simulated nodes: they serve made-up text.\n"
        "SIGUSR1 withholds every message to the portal until the next SIGUSR1.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"{_kinds()}\n\n{_EXAMPLE}",
    )
    parser.add_argument("--server", required=True, metavar="URL", help="the pool's address")
    parser.add_argument("--nodes", type=int, default=10, help=f"how many nodes, up to {_MAX_NODES} (10)")
    parser.add_argument("--tokens-file", type=Path, metavar="F", help="enrolment tokens, one a line, for nodes to join")
    parser.add_argument("--identities", type=Path, metavar="DIR", help="where the nodes' keys are kept (STATE/fleet)")
    parser.add_argument("--mix", default=mix.DEFAULT, metavar="KIND=N,…", help=f"kinds by weight ({mix.DEFAULT})")
    parser.add_argument("--seed", type=int, default=0, help="the same seed draws the same fleet (0)")
    parser.add_argument("--duration", default="10m", metavar="TIME", help="how long, such as 90s or 10m (10m)")
    parser.add_argument("--ramp", metavar="TIME", help="over how long the nodes start (five a second, 20s at least)")
    parser.add_argument("--pace", type=int, default=1, metavar="N", help="let the nodes' lives go N times faster (1)")
    parser.add_argument("--retire", action="store_true", help="let the fleet leave the pool and delete its identities")
    parser.add_argument("--verbose", action="store_true", help="the nodes' own logs, to stderr")
    options.add_json(parser, schema="simulate.json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the fleet, or retire it. Raises AgentError."""
    from poolhouse_agent.simulate.fleet import fleet

    logs.configure(as_json=False, level=logging.INFO if arguments.verbose else logging.CRITICAL)
    server = addresses.portal_url(arguments.server)
    folder = arguments.identities or arguments.state / "fleet"
    if arguments.retire:
        report = asyncio.run(_retire(folder, server))
    else:
        _allow_files(arguments.nodes)
        report = asyncio.run(fleet.run(_plan(arguments, server, folder), Screen().show))
    if arguments.json:
        terminal.say_json(report)
    else:
        for line in _lines(report):
            terminal.say(line)
    return 0


def _kinds() -> str:
    from poolhouse_agent.simulate.fleet.kinds import KINDS

    return "\n".join(["kinds:", *(f"  {kind.name:<11} {kind.about}" for kind in KINDS.values())])


def _plan(arguments: argparse.Namespace, server: str, folder: Path) -> "Plan":
    from poolhouse_agent.simulate.fleet import mix
    from poolhouse_agent.simulate.fleet.fleet import Plan

    if not 1 <= arguments.nodes <= _MAX_NODES:
        raise ConfigError("config_invalid", f"--nodes is from 1 to {_MAX_NODES}")
    return Plan(
        server=server,
        folder=folder,
        nodes=arguments.nodes,
        weights=mix.parse(arguments.mix),
        seed=arguments.seed,
        duration_s=_seconds(arguments.duration),
        ramp_s=_seconds(arguments.ramp) if arguments.ramp else max(_RAMP_S, arguments.nodes / _STARTING_A_SECOND),
        pace=float(max(1, arguments.pace)),
        tokens=_tokens(arguments.tokens_file),
    )


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ConfigError("config_invalid", f"{text!r} is no time: 90s, 10m and 2h are")
    return float(int(found[1]) * _SECONDS[found[2]])


def _tokens(path: Path | None) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        return tuple(path.read_text(encoding="ascii").split())
    except (OSError, ValueError) as error:
        raise ConfigError("token_missing", f"{path}: {error}") from None


def _allow_files(nodes: int) -> None:
    """Raise this process's limit of open files. Raises ConfigError where the system does not allow enough."""
    wanted = nodes * _FILES_A_NODE + 256
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise ConfigError("config_invalid", f"{nodes} nodes need {wanted} open files, this system allows {hard}")
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _retire(folder: Path, server: str) -> dict[str, Any]:
    from poolhouse_agent.simulate.fleet import retire

    def watch(left: int) -> None:
        if left % _SAY_EVERY == 0:
            terminal.note(f"{left} nodes have left")

    return dict(await retire.retire(folder, server=server, watch=watch))


def _lines(report: dict[str, Any]) -> list[str]:
    from poolhouse_agent.simulate.fleet import figures

    if "left" in report:
        kept = f", {report['kept']} could not tell the pool: run this again" if report["kept"] else ""
        return [f"{report['left']} nodes left the pool{kept}"]
    return figures.lines(report)


class Screen:
    """Shows the fleet on a terminal, redrawn in place; elsewhere a line now and then."""

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty()
        self._drawn = 0
        self._said_at = 0.0

    def show(self, report: dict[str, Any]) -> None:
        """Show the report."""
        from poolhouse_agent.simulate.fleet import figures

        lines = figures.lines(report)
        if self._is_live:
            up = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
            sys.stderr.write(up + "\n".join(lines) + "\n")
            self._drawn = len(lines)
        elif report["elapsed_s"] - self._said_at >= _LINE_EVERY_S:
            self._said_at = report["elapsed_s"]
            terminal.note(lines[0])
