"""What all requests of a simulated engine share."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from jinja2 import TemplateError

from poolhouse_agent.simulate import tokens
from poolhouse_agent.simulate.counters import Counters, PrefixCache
from poolhouse_agent.simulate.validation import ChatRequest, bad_request

_QUEUE_FACTOR = 2


class Engine:
    """What all requests share: places, counters, cache, tokenizer."""

    def __init__(self, *, model: str, max_num_seqs: int) -> None:
        self.model = model
        self.tokens = tokens.shared()
        self.counters = Counters(model)
        self.cache = PrefixCache()
        self._max_num_seqs = max_num_seqs
        self._places = asyncio.Semaphore(max_num_seqs)

    def prompt_ids(self, wanted: ChatRequest) -> list[int]:
        """The ids of the prompt. Raises Refused where the template cannot take it."""
        messages = [handed_over(message) for message in wanted.messages]
        try:
            return self.tokens.prompt_ids(messages, wanted.tools)
        except (TemplateError, TypeError, ValueError) as error:
            raise bad_request(f"The chat template refused the conversation: {error}") from None

    def has_room(self, choices: int) -> bool:
        """Whether the queue takes this many more."""
        return self.counters.running + self.counters.waiting + choices <= self._max_num_seqs * (1 + _QUEUE_FACTOR)

    @contextlib.asynccontextmanager
    async def place(self, choices: int) -> AsyncIterator[None]:
        """Wait for a place and hold it."""
        self.counters.waiting += choices
        try:
            await self._places.acquire()
        finally:
            self.counters.waiting -= choices
        self.counters.running += choices
        try:
            yield
        finally:
            self.counters.running -= choices
            self._places.release()


def handed_over(message: dict[str, Any]) -> dict[str, Any]:
    """A message as vLLM gives it to a template: its text is never null, a call's arguments are an object."""
    changed = {**message, "content": message.get("content") or ""}
    if message.get("tool_calls"):
        changed["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _arguments(call["function"].get("arguments"))}}
            for call in message["tool_calls"]
        ]
    return changed


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
