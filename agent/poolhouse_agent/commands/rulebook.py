"""What `schedule` and `limits` share: rules in force, where each comes from, and how one is set."""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from poolhouse_agent import config, terminal
from poolhouse_agent.commands import options
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.owner import book, standing
from poolhouse_agent.owner.book import Book
from poolhouse_agent.owner.rules import OwnerRules
from poolhouse_agent.owner.standing import Standing
from poolhouse_agent.state import State

Run = Callable[[argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class Rulebook:
    """The owner's rules of one state folder, as the configuration and the commands have them."""

    state: State
    table: Mapping[str, Any]
    book: Book
    rules: OwnerRules

    def raw(self, name: str) -> Any:
        """The value in force as the owner wrote it; None where none is set."""
        return {**self.table, **self.book.set}.get(name)

    def source(self, name: str) -> str:
        """Where a rule comes from."""
        if self.book.set.get(name) is not None:
            return "set by command"
        return "configuration" if self.raw(name) is not None else "default"

    def standing(self) -> Standing:
        """What the clock and a pause allow now; whether the owner uses a GPU only the running agent knows."""
        now = datetime.now(UTC)
        return standing.decide(rules=self.rules, pause=self.book.pause, in_use="", is_draining=False, now=now)


def add_verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str, *, run: Run
) -> argparse.ArgumentParser:
    """Add a verb that takes `--json` as its command does."""
    parser = verbs.add_parser(name, help=text)
    options.add_json(parser, default=argparse.SUPPRESS)
    parser.set_defaults(run=run)
    return parser


def opened(arguments: argparse.Namespace) -> Rulebook:
    """Read configuration and state folder. Raises ConfigError."""
    state = State(arguments.state)
    state.create()
    table = config.load(arguments.config, environ=os.environ).owner
    found = book.load(state)
    return Rulebook(state, table, found, book.merged(table, found, where="the owner's rules"))


def change(before: Rulebook, changes: Mapping[str, Any]) -> Rulebook:
    """Set rules, once all of them are good; None gives way to the configuration again. Raises ConfigError."""
    merged = {**before.book.set, **changes}
    after = Book({name: value for name, value in merged.items() if value is not None}, before.book.pause)
    checked = Rulebook(before.state, before.table, after, book.merged(before.table, after, where="this command"))
    book.store(before.state, after)
    return checked


def change_and_show(
    arguments: argparse.Namespace, changes: Mapping[str, Any], *, show: Callable[[Rulebook, argparse.Namespace], None]
) -> int:
    """Set rules and print those in force, and whether a running agent hears it. Raises ConfigError."""
    if not changes:
        raise ConfigError("config_invalid", "nothing was given to set; --help lists what can be")
    after = change(opened(arguments), changes)
    show(after, arguments)
    if not arguments.json:
        say_running(after.state)
    return 0


def told_until(stands: Standing, rules: OwnerRules) -> str:
    """When a rest ends, on the owner's clock."""
    return f" until {stands.until.astimezone(rules.zone):%a %H:%M}" if stands.until else ""


def say_running(state: State) -> None:
    """Say whether a running agent hears the change."""
    is_running = state.is_running()
    terminal.say("the agent hears it within a second" if is_running else "the agent does not run now")
