"""A checked request, whichever endpoint it came by."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What admission, routing and relay must know. `body` is what a node gets, without the fields that admission adds.

    `prompt_bytes` bounds the tokens of all prompts; None: the prompt must be rendered or counted to be bounded.
    `opening` are messages whose beginning requests may share; none where nothing is cached for later.
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
    answer_bytes: int = 0
    is_cached: bool = True
    prompt_field: str = "messages"
    opening: list[dict[str, Any]] = field(default_factory=list)
