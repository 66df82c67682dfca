"""Cuts a chat's deltas into blocks, as the formats need them that number reasoning, text and calls one by one."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

import orjson

from portal.gateway.dialects.base import Choices
from portal.gateway.failures import broke
from portal.gateway.strict_json import MAX_DEPTH, depth_exceeds


class Kind(Enum):
    """What a block holds."""

    REASONING = "reasoning"
    TEXT = "text"
    CALL = "call"


class Moment(Enum):
    """What happens to a block."""

    START = "start"
    DELTA = "delta"
    STOP = "stop"


@dataclass(slots=True, eq=False)
class Block:
    """One piece of the answer: reasoning, text, or the call of a tool with its arguments as text."""

    kind: Kind
    number: int
    call_id: str = ""
    name: str = ""
    texts: list[str] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return all of it so far."""
        return "".join(self.texts)


class Step(NamedTuple):
    """One change of one block."""

    moment: Moment
    block: Block
    text: str = ""
    logprobs: list[dict[str, Any]] | None = None


_START: Final = Moment.START
_DELTA: Final = Moment.DELTA
_STOP: Final = Moment.STOP
_REASONING: Final = Kind.REASONING
_TEXT: Final = Kind.TEXT


class BlockCutter:
    """One object an answer of one choice. A call stays open until the next: text may interrupt its arguments."""

    __slots__ = ("_call", "_calls", "_spoken", "blocks", "finish_reason", "stop_sequence")

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.finish_reason: str | None = None
        self.stop_sequence: str | None = None
        self._spoken: Block | None = None
        self._call: Block | None = None
        self._calls: dict[int, Block] = {}

    def take(self, choices: Choices) -> list[Step]:
        """Return the steps that these choices bring. Raises NodeFailed for a call that goes on after its end."""
        steps: list[Step] = []
        for choice in choices:
            self._take(choice.get("delta") or choice.get("message") or {}, choice.get("logprobs"), steps)
            if choice["finish_reason"] is not None:
                self.finish_reason = choice["finish_reason"]
                self.stop_sequence = choice.get("stop_reason")
        return steps

    def end(self) -> list[Step]:
        """Return the steps that close what is open."""
        steps: list[Step] = []
        self._close_all(steps)
        return steps

    @property
    def calls(self) -> list[Block]:
        """Return the calls in their order."""
        return list(self._calls.values())

    @property
    def has_whole_calls(self) -> bool:
        """Whether tools are called, with arguments that nothing cut short."""
        calls = self.calls
        return bool(calls) and arguments(calls[-1].text) is not None

    def _take(self, part: dict[str, Any], logprobs: dict[str, Any] | None, steps: list[Step]) -> None:
        reasoning = part.get("reasoning") or part.get("reasoning_content")
        if reasoning:
            self._say(_REASONING, reasoning, None, steps)
        for name in ("content", "refusal"):
            text = part.get(name)
            if text:
                self._say(_TEXT, text, logprobs["content"] if logprobs else None, steps)
        for position, call in enumerate(part.get("tool_calls") or ()):
            self._continue(call, call.get("index", position), steps)

    def _say(self, kind: Kind, text: str, logprobs: list[dict[str, Any]] | None, steps: list[Step]) -> None:
        block = self._spoken
        if block is None or block.kind is not kind:
            if block is not None:
                steps.append(Step(_STOP, block))
            block = self._spoken = self._start(Block(kind, len(self.blocks)), steps)
        block.texts.append(text)
        if logprobs:
            block.logprobs += logprobs
        steps.append(Step(_DELTA, block, text, logprobs))

    def _continue(self, call: dict[str, Any], index: int, steps: list[Step]) -> None:
        function = call["function"]
        block = self._calls.get(index)
        if block is None:
            self._close_all(steps)
            block = Block(Kind.CALL, len(self.blocks), call.get("id", ""), function.get("name", ""))
            self._call = self._calls[index] = self._start(block, steps)
        elif block is not self._call:
            raise broke("tool_call_continued")
        text = function.get("arguments")
        if text:
            block.texts.append(text)
            steps.append(Step(_DELTA, block, text))

    def _start(self, block: Block, steps: list[Step]) -> Block:
        self.blocks.append(block)
        steps.append(Step(_START, block))
        return block

    def _close_all(self, steps: list[Step]) -> None:
        """Close the open call and the text or reasoning that is open, in the order in which they began."""
        opened = [block for block in (self._call, self._spoken) if block is not None]
        steps += [Step(_STOP, block) for block in sorted(opened, key=lambda block: block.number)]
        self._call = self._spoken = None


def arguments(text: str) -> dict[str, Any] | None:
    """Return a call's arguments; None where they are no JSON object that can be written again, as when cut short."""
    try:
        found = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return None
    if depth_exceeds(text.encode(), MAX_DEPTH):
        return None
    return found if isinstance(found, dict) else None
