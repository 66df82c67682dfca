"""Cuts a chat's deltas into blocks, as the formats need them that number reasoning, text and calls one by one."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import orjson

from portal.gateway.dialects.base import Choices
from portal.gateway.failures import broke


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


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one block."""

    moment: Moment
    block: Block
    text: str = ""
    logprobs: tuple[dict[str, Any], ...] = ()


_TEXTS: Final = (
    (Kind.REASONING, ("reasoning", "reasoning_content")),
    (Kind.TEXT, ("content",)),
    (Kind.TEXT, ("refusal",)),
)


class BlockCutter:
    """One object an answer of one choice. A call stays open until the next: text may interrupt its arguments."""

    __slots__ = ("_calls", "_open", "blocks", "finish_reason", "stop_sequence")

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.finish_reason: str | None = None
        self.stop_sequence: str | None = None
        self._open: list[Block] = []
        self._calls: dict[int, Block] = {}

    def take(self, choices: Choices) -> list[Step]:
        """Return the steps that these choices bring. Raises NodeFailed for a call that goes on after its end."""
        steps: list[Step] = []
        for choice in choices:
            self._take(choice.get("delta") or choice.get("message") or {}, choice.get("logprobs"), steps)
            if choice.get("finish_reason") is not None:
                self.finish_reason = choice["finish_reason"]
                self.stop_sequence = choice.get("stop_reason")
        return steps

    def end(self) -> list[Step]:
        """Return the steps that close what is open."""
        steps: list[Step] = []
        self._close(steps, set(Kind))
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
        for kind, names in _TEXTS:
            text = next((found for name in names if (found := part.get(name))), None)
            if text:
                rows = logprobs["content"] if logprobs and kind is Kind.TEXT else None
                self._text(kind, text, tuple(rows or ()), steps)
        for position, call in enumerate(part.get("tool_calls") or ()):
            self._call(call, call.get("index", position), steps)

    def _text(self, kind: Kind, text: str, logprobs: tuple[dict[str, Any], ...], steps: list[Step]) -> None:
        block = next((block for block in self._open if block.kind is kind), None)
        if block is None:
            self._close(steps, {Kind.REASONING, Kind.TEXT})
            block = self._start(Block(kind, len(self.blocks)), steps)
        block.texts.append(text)
        block.logprobs += logprobs
        steps.append(Step(Moment.DELTA, block, text, logprobs))

    def _call(self, call: dict[str, Any], index: int, steps: list[Step]) -> None:
        function = call["function"]
        block = self._calls.get(index)
        if block is None:
            self._close(steps, set(Kind))
            block = Block(Kind.CALL, len(self.blocks), call.get("id", ""), function.get("name", ""))
            self._calls[index] = self._start(block, steps)
        elif block not in self._open:
            raise broke("tool_call_continued")
        text = function.get("arguments")
        if text:
            block.texts.append(text)
            steps.append(Step(Moment.DELTA, block, text))

    def _start(self, block: Block, steps: list[Step]) -> Block:
        self.blocks.append(block)
        self._open.append(block)
        steps.append(Step(Moment.START, block))
        return block

    def _close(self, steps: list[Step], kinds: set[Kind]) -> None:
        closing = [block for block in self._open if block.kind in kinds]
        self._open = [block for block in self._open if block.kind not in kinds]
        steps += [Step(Moment.STOP, block) for block in closing]


def arguments(text: str) -> dict[str, Any] | None:
    """Return a call's arguments; None where they are no JSON object, as when the answer was cut short."""
    try:
        found = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
