"""`limits`: what the pool's work may take of this machine: GPUs the owner uses, watts, downloaded bytes."""

import argparse
from datetime import UTC, datetime
from typing import Any

from poolhouse_agent import terminal
from poolhouse_agent.commands import options, rulebook
from poolhouse_agent.commands.rulebook import Rulebook
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.owner import amounts, quota

_KEYS = {
    "yield": "yield", "yield-ignore": "yield_ignore", "power-cap": "power_cap_w", "download-day": "download_day",
    "download-month": "download_month",
}  # fmt: skip


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "limits",
        help="yielding to your own GPU work, power cap, download quota",
        epilog="example: poolhouse-agent limits set --power-cap 280 --download-day 50GB --download-month 400GB",
    )
    options.add_json(parser)
    parser.set_defaults(run=show)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB")
    setting = rulebook.add_verb(verbs, "set", "set limits", run=change)
    setting.add_argument("--yield", choices=["on", "off"], help="make way for your own processes on a GPU (on)")
    setting.add_argument("--yield-ignore", action="append", metavar="NAME", help="a process that may run beside")
    setting.add_argument("--power-cap", metavar="WATT", help="of each GPU")
    setting.add_argument("--download-day", metavar="SIZE", help="of weights in a day, such as 50GB")
    setting.add_argument("--download-month", metavar="SIZE", help="of weights in a month")
    clearing = rulebook.add_verb(verbs, "clear", "take a limit back", run=clear)
    clearing.add_argument("names", nargs="+", choices=sorted(_KEYS), metavar="NAME")
    rulebook.add_verb(verbs, "show", "print them", run=show)


def show(arguments: argparse.Namespace) -> int:
    """Print the limits. Raises ConfigError."""
    _print(rulebook.opened(arguments), arguments)
    return 0


def change(arguments: argparse.Namespace) -> int:
    """Set what was given. Raises ConfigError."""
    given = {key: getattr(arguments, name.replace("-", "_")) for name, key in _KEYS.items()}
    changes = {key: _value(key, text) for key, text in given.items() if text is not None}
    return rulebook.change_and_show(arguments, changes, show=_print)


def clear(arguments: argparse.Namespace) -> int:
    """Take limits back. Raises ConfigError."""
    return rulebook.change_and_show(arguments, {_KEYS[name]: None for name in arguments.names}, show=_print)


def _value(key: str, text: Any) -> Any:
    if key == "yield":
        return text == "on"
    if key != "power_cap_w":
        return text
    try:
        return int(text)
    except ValueError:
        raise ConfigError("config_invalid", f"{text[:20]!r} is no whole number of watts") from None


def _print(found: Rulebook, arguments: argparse.Namespace) -> None:
    rules, so_far = found.rules, quota.spent(found.state, found.rules, now=datetime.now(UTC))
    if arguments.json:
        terminal.say_json({
            "yield": rules.is_yielding, "yield_ignore": sorted(rules.yield_ignored), "power_cap_w": rules.power_cap_w,
            "download_day_bytes": rules.download_day_bytes, "download_month_bytes": rules.download_month_bytes,
            "downloaded_day_bytes": so_far.day_bytes, "downloaded_month_bytes": so_far.month_bytes,
        })  # fmt: skip
        return
    ignored = ", ".join(sorted(rules.yield_ignored)) or "none"
    terminal.table([
        ("yields to your GPU work", "yes" if rules.is_yielding else "no", found.source("yield")),
        ("processes beside", ignored, found.source("yield_ignore")),
        ("power cap", f"{rules.power_cap_w} W a GPU" if rules.power_cap_w else "none", found.source("power_cap_w")),
        ("downloads a day", _of(so_far.day_bytes, rules.download_day_bytes), found.source("download_day")),
        ("downloads a month", _of(so_far.month_bytes, rules.download_month_bytes), found.source("download_month")),
    ])  # fmt: skip


def _of(spent: int, limit: int | None) -> str:
    return f"{amounts.size_text(spent)} of {amounts.size_text(limit) if limit is not None else 'no limit'}"
