"""What the owner set by command, kept in one file of the state folder: rules and the pause."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from poolhouse_agent.errors import ConfigError
from poolhouse_agent.owner import rules
from poolhouse_agent.owner.rules import OwnerRules
from poolhouse_agent.owner.standing import Pause
from poolhouse_agent.state import State

FILE = "owner.json"


@dataclass(frozen=True, slots=True)
class Book:
    """The raw rules set by command and the owner's pause."""

    set: Mapping[str, Any] = field(default_factory=dict)
    pause: Pause | None = None


def load(state: State) -> Book:
    """Read the file; none is an empty book. Raises ConfigError."""
    raw = state.read(FILE)
    if raw is None:
        return Book()
    try:
        return Book(dict(raw["rules"]), _pause(raw["pause"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError("state_unreadable", f"{state.folder / FILE} is damaged; remove it and set it anew") from None


def store(state: State, book: Book) -> None:
    """Replace the file. Raises ConfigError."""
    pause = book.pause
    written = pause and {"since": pause.since.isoformat(), "until": pause.until.isoformat() if pause.until else None}
    state.write(FILE, {"rules": dict(book.set), "pause": written})


def merged(table: Mapping[str, Any], book: Book, *, where: str) -> OwnerRules:
    """The rules in force: the configuration's, over them those set by command. Raises ConfigError."""
    return rules.read({**table, **book.set}, where=where)


def _pause(raw: Mapping[str, Any] | None) -> Pause | None:
    if raw is None:
        return None
    until = raw["until"]
    return Pause(_moment(raw["since"]), None if until is None else _moment(until))


def _moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(text)
    return at
