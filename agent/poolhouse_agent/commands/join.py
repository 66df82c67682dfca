"""`join`: trade an enrolment token for a place in the pool."""

import argparse
import asyncio
import os
import platform
import sys
from pathlib import Path

from poolhouse_agent import addresses, config, host, identity, session, terminal
from poolhouse_agent.client import PortalClient
from poolhouse_agent.commands import options
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.nvml import refusal
from poolhouse_agent.nvml.inventory import Inventory
from poolhouse_agent.state import Membership, State, Wish

_MAX_TOKEN = 512
_STDIN = Path("-")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("join", help="join a pool with an enrolment token")
    parser.add_argument(
        "--server", required=True, metavar="URL", help="the pool's address, such as https://pool.example"
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="F",
        help="a file that holds the token, - for standard input (else POOLHOUSE_TOKEN, else a prompt)",
    )
    parser.add_argument("--name", default=platform.node(), help="how the pool shows this machine (its host name)")
    parser.add_argument(
        "--simulate", metavar="PROFILE", default="", help="simulate GPUs and engine, such as rtx4090x2 or h100x8:slow"
    )
    options.add_json(parser, schema="join.json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Join. Raises AgentError."""
    server = addresses.portal_url(arguments.server)
    _check_profile(arguments.simulate)
    state = State(arguments.state)
    state.create()
    known = state.membership()
    if known is not None:
        raise ConfigError("already_joined", f"this machine is {known.node} of {known.server}")
    if not arguments.simulate:
        _require_servable(arguments.config)
    token = _token(arguments.token_file)
    key = identity.load_or_create(state.key_file)
    membership = asyncio.run(_enrol(key, server, token, arguments.name[:80] or "node", arguments.simulate))
    state.store_wish(Wish.SERVE)
    state.store_membership(membership)
    if arguments.json:
        terminal.say_json({"node": membership.node, "provider": membership.provider, "server": server})
    else:
        terminal.say(f"joined {server} as {membership.node}")
        terminal.say("next: poolhouse-agent run, or poolhouse-agent service install")
    return 0


async def _enrol(key: identity.Identity, server: str, token: str, name: str, simulate: str) -> Membership:
    async with PortalClient(server) as client:
        enrolled = await session.enrol(
            client, key, token=token, name=name, is_simulated=bool(simulate), host=host.facts()
        )
    return Membership(node=enrolled.node, provider=enrolled.provider, server=server, name=name, simulate=simulate)


def _require_servable(path: Path) -> None:
    """Refuse a kind of machine that cannot serve yet, unless it serves by a server of the owner's own."""
    settings = config.load(path, environ=os.environ)
    if not settings.external:
        refusal.require_servable(asyncio.run(Inventory(library=settings.nvml).read()))


def _check_profile(text: str) -> None:
    if not text:
        return
    from poolhouse_agent.simulate import profile

    try:
        profile.parse(text)
    except ValueError as error:
        raise ConfigError("config_invalid", str(error)) from None


def _token(path: Path | None) -> str:
    if path is not None:
        try:
            raw = sys.stdin.buffer.read(_MAX_TOKEN + 2) if path == _STDIN else path.read_bytes()
            token = raw.decode("ascii").strip()
        except (OSError, ValueError) as error:
            raise ConfigError("token_missing", f"{path}: {error}") from None
    elif "POOLHOUSE_TOKEN" in os.environ:
        token = os.environ["POOLHOUSE_TOKEN"].strip()
    elif terminal.is_interactive():
        token = terminal.ask_secret("enrolment token: ").strip()
    else:
        raise ConfigError("token_missing", "no --token-file, no POOLHOUSE_TOKEN, and nobody to ask")
    if not token or len(token) > _MAX_TOKEN or not token.isprintable() or " " in token:
        raise ConfigError("enrolment_token_invalid", "that is not a token")
    return token
