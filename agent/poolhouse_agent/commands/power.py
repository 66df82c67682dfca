"""`power`: sets the owner's power cap and puts the limits of before back; needs an administrator's rights."""

import argparse
import asyncio
import os

from poolhouse_agent import config, terminal
from poolhouse_agent.commands import options, rulebook
from poolhouse_agent.errors import fix_of
from poolhouse_agent.owner.power import Limit, PowerKeeper


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("power", help="set the power cap of `limits` now, or put the old limits back")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for verb, text in (("apply", "set the cap on every GPU"), ("restore", "put back the limits of before")):
        one = verbs.add_parser(verb, help=text)
        options.add_json(one)
        one.set_defaults(run=run, verb=verb)


def run(arguments: argparse.Namespace) -> int:
    """Set or restore: 0 when every GPU took it, 1 else. Raises ConfigError."""
    found = rulebook.opened(arguments)
    keeper = PowerKeeper(found.state, library=config.load(arguments.config, environ=os.environ).nvml)
    cap_w = found.rules.power_cap_w if arguments.verb == "apply" else None
    limits = asyncio.run(keeper.hold(cap_w) if cap_w is not None else keeper.restore())
    if arguments.json:
        terminal.say_json({"power_cap_w": cap_w, "gpus": [_as_json(limit) for limit in limits]})
    else:
        _print(limits)
    return 1 if any(limit.code for limit in limits) else 0


def _as_json(limit: Limit) -> dict[str, object]:
    return {"gpu": limit.gpu, "before_w": limit.before_w, "now_w": limit.now_w, "code": limit.code,
            "detail": limit.detail, "fix": fix_of(limit.code)}  # fmt: skip


def _print(limits: tuple[Limit, ...]) -> None:
    if not limits:
        terminal.say("nothing to change")
    for limit in limits:
        if limit.code:
            terminal.say(f"{limit.gpu or 'GPUs'}: {limit.detail} [{limit.code}]")
            terminal.say(f"  fix: {fix_of(limit.code)}")
        else:
            terminal.say(f"{limit.gpu}: {limit.before_w} W before, {limit.now_w} W now")
