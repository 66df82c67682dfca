"""`schedule`: when this machine serves, and when it is quiet, by its own clock."""

import argparse

from poolhouse_agent import terminal
from poolhouse_agent.commands import options, rulebook
from poolhouse_agent.commands.rulebook import Rulebook
from poolhouse_agent.errors import cause_of
from poolhouse_agent.owner.standing import Action

_NAMES = ("timezone", "serve", "quiet")
_WORDS = {"timezone": "zone", "serve": "serves", "quiet": "quiet hours"}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "schedule",
        help="when this machine serves, and its quiet hours",
        epilog="example: poolhouse-agent schedule set --serve 'mon-fri 18:00-08:00' --serve 'sat-sun 00:00-24:00' "
        "--quiet 23:00-06:30",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB")
    parser.set_defaults(run=show)
    options.add_json(parser)
    setting = rulebook.add_verb(
        verbs, "set", "set windows of the week; each replaces what was set of its kind", run=change
    )
    setting.add_argument("--serve", action="append", metavar="WINDOW", help="serve in these windows only")
    setting.add_argument("--quiet", action="append", metavar="WINDOW", help="never serve in these windows")
    setting.add_argument("--timezone", metavar="ZONE", help="such as Europe/Berlin (the machine's own)")
    rulebook.add_verb(verbs, "clear", "take back what was set by command", run=clear)
    rulebook.add_verb(verbs, "show", "print it", run=show)


def show(arguments: argparse.Namespace) -> int:
    """Print the schedule. Raises ConfigError."""
    _print(rulebook.opened(arguments), arguments)
    return 0


def change(arguments: argparse.Namespace) -> int:
    """Set what was given. Raises ConfigError."""
    given = {name: getattr(arguments, name) for name in _NAMES if getattr(arguments, name) is not None}
    return rulebook.change_and_show(arguments, given, show=_print)


def clear(arguments: argparse.Namespace) -> int:
    """Take back what was set by command. Raises ConfigError."""
    return rulebook.change_and_show(arguments, dict.fromkeys(_NAMES), show=_print)


def _print(found: Rulebook, arguments: argparse.Namespace) -> None:
    stands = found.standing()
    if arguments.json:
        values = {name: found.raw(name) for name in _NAMES}
        until = stands.until.isoformat() if stands.until else None
        now = {"action": stands.action.value, "code": stands.code, "until": until}
        terminal.say_json({**values, "zone": str(found.rules.zone), "now": now})
        return
    rows = [(_WORDS["timezone"], str(found.rules.zone), found.source("timezone"))]
    for name, empty in (("serve", "always"), ("quiet", "none")):
        texts = found.raw(name) or [empty]
        rows += [(_WORDS[name] if first else "", text, found.source(name)) for first, text in _marked(texts)]
    terminal.table(rows)
    if stands.action is Action.SERVE:
        terminal.say("serves now")
    else:
        terminal.say(f"rests now{rulebook.told_until(stands, found.rules)}: {cause_of(stands.code)}")


def _marked(texts: list[str]) -> list[tuple[bool, str]]:
    return [(number == 0, text) for number, text in enumerate(texts)]
