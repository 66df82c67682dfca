"""A checked request, whichever endpoint it came by."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What admission, routing and relay must know. `body` is what a node gets, without the fields that admission adds.

    `prompt_bytes` bounds the tokens of all prompts; None: the prompt must be rendered to be bounded.
    """

    body: dict[str, Any]
    prompt_bytes: int | None
    prompts: int = 1
    choices: int = 1
    output_tokens: int = 0
    is_stream: bool = False
    wants_usage: bool = False
    has_tools: bool = False
    logprobs: int | None = None
    ignored: tuple[str, ...] = ()

    @property
    def opening(self) -> list[dict[str, Any]]:
        """Return the messages whose beginning requests may share; none where nothing is cached."""
        found: list[dict[str, Any]] = self.body.get("messages", [])
        return found
