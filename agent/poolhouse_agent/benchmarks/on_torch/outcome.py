"""What a program says to the agent: one JSON object a line."""

import json
import sys
from collections.abc import Callable
from typing import Any

Progress = Callable[[float], None]


class Unsupported(Exception):
    """This device or this PyTorch cannot do it."""


class Wrong(Exception):
    """The hardware gave a wrong result; `code` is of the failure catalogue."""

    def __init__(self, code: str, detail: str, **evidence: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.evidence = evidence


def say(**fields: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def progress(share: float) -> None:
    """Say how much is done, 0 to 1."""
    say(progress=round(share, 3))
