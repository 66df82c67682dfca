"""What commands print: tables and marks for people, JSON for programs. Colours only on a terminal without NO_COLOR."""

import getpass
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from poolhouse_agent.errors import AgentError, cause_of
from poolhouse_agent.logs import masked

_COLOURS = {"ok": "32", "warn": "33", "fail": "31", "skip": "90", "bold": "1"}


def has_colour() -> bool:
    """Whether stdout takes colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, colour: str) -> str:
    """The text in a colour, where there are colours."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if has_colour() else text


def say(text: str = "") -> None:
    """Print a line."""
    sys.stdout.write(masked(text) + "\n")


def note(text: str) -> None:
    """Print a line to stderr, where it is in nobody's way."""
    sys.stderr.write(masked(text) + "\n")


def say_json(value: object) -> None:
    """Print one JSON object."""
    sys.stdout.write(masked(json.dumps(value, indent=1, ensure_ascii=False, default=str)) + "\n")


def say_line(value: object) -> None:
    """Print one JSON object on a line of its own, exactly as it is: it may be signed."""
    sys.stdout.write(json.dumps(value, separators=(",", ":"), ensure_ascii=True) + "\n")


def table(rows: Sequence[Sequence[Any]], *, indent: int = 2) -> None:
    """Print rows with aligned columns."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))] if texts else []
    for row in texts:
        say(" " * indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def explain(error: AgentError) -> None:
    """Print to stderr what failed, why, and what to do."""
    lines = [f"{coloured('failed', 'fail')}: {error.detail or error.code} [{error.code}]"]
    if cause := cause_of(error.code):
        lines.append(f"  cause: {cause}")
    if error.fix:
        lines.append(f"  fix:   {error.fix}")
    sys.stderr.write(masked("\n".join(lines)) + "\n")


def is_interactive() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_secret(prompt: str) -> str:
    """Ask for a secret without showing it."""
    return getpass.getpass(prompt, stream=sys.stderr)
