"""A chat's answer as a message: content blocks, named events, a stop reason and usage that says what it cost."""

from typing import Any, Final

import orjson

from portal.core.money import decimal_text
from portal.gateway.contracts import Settled
from portal.gateway.dialects.base import Choices, Names, Stamp
from portal.gateway.dialects.blocks import Block, BlockCutter, Kind, Moment, Step, arguments
from portal.gateway.dialects.messages.wording import MessagesWording, event

_PING: Final = event("ping", {"type": "ping"})
_STOP: Final = event("message_stop", {"type": "message_stop"})
_IS_DELTA: Final = Moment.DELTA
# Written once a token: a filled form instead of an object.
_DELTA: Final = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":%b}}\n\n'
)
_DELTAS: Final = {
    Kind.REASONING: (b"thinking_delta", b"thinking"),
    Kind.TEXT: (b"text_delta", b"text"),
    Kind.CALL: (b"input_json_delta", b"partial_json"),
}
_NO_TEXT: Final = {"type": "text", "text": ""}
_NO_USAGE: Final = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}


class MessagesDialect(MessagesWording):
    """One answer."""

    __slots__ = ("_currency", "_cutter", "_names")

    needs_settled: Final = True

    def __init__(self, names: Names, stamp: Stamp) -> None:
        super().__init__(stamp.request_id)
        self._names = names
        self._currency = stamp.currency
        self._cutter = BlockCutter()

    def begin(self) -> bytes:
        """Return the message without content; what it used is known at its end."""
        message = self._message([], stop_reason=None, stop_sequence=None, usage=_NO_USAGE)
        return event("message_start", {"type": "message_start", "message": message})

    def delta(self, choices: Choices) -> bytes:
        """Return the events of the blocks that these choices began, continued and ended."""
        return b"".join(map(self._events, self._cutter.take(choices)))

    def end(self, settled: Settled | None) -> bytes:
        """Return the ends of open blocks, the stop reason with the usage, and the end of the message."""
        out = [self._events(step) for step in self._cutter.end()]
        if not self._cutter.blocks:
            out.append(_start(0, _NO_TEXT) + _stop(0))
        reason, sequence = self._stop_reason()
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        usage = _NO_USAGE if settled is None else self._usage(settled)
        out.append(event("message_delta", {"type": "message_delta", "delta": delta, "usage": usage}))
        return b"".join((*out, _STOP))

    def ping(self) -> bytes:
        """Return an event with data, which clients' idle timers hear."""
        return _PING

    def whole(self, choices: Choices, settled: Settled) -> dict[str, Any]:
        """Return the message in one piece."""
        self._cutter.take(choices)
        content = [self._content(block) for block in self._cutter.blocks] or [_NO_TEXT]
        reason, sequence = self._stop_reason()
        return self._message(content, stop_reason=reason, stop_sequence=sequence, usage=self._usage(settled))

    def _message(
        self,
        content: list[dict[str, Any]],
        *,
        stop_reason: str | None,
        stop_sequence: str | None,
        usage: dict[str, Any],
    ) -> dict[str, Any]:
        return {
            "id": self._names.answer_id,
            "type": "message",
            "role": "assistant",
            "model": self._names.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": stop_sequence,
            "usage": usage,
        }

    def _events(self, step: Step) -> bytes:
        block = step.block
        if step.moment is _IS_DELTA:
            kind, name = _DELTAS[block.kind]
            return _DELTA % (block.number, kind, name, orjson.dumps(step.text))
        if step.moment is Moment.START:
            return _start(block.number, self._opening(block))
        if block.kind is Kind.REASONING:
            signature = orjson.dumps(self._signature())
            signed = _DELTA % (block.number, b"signature_delta", b"signature", signature)
            return signed + _stop(block.number)
        return _stop(block.number)

    def _opening(self, block: Block) -> dict[str, Any]:
        if block.kind is Kind.CALL:
            return {"type": "tool_use", "id": self._call_id(block), "name": block.name, "input": {}}
        if block.kind is Kind.REASONING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        return _NO_TEXT

    def _content(self, block: Block) -> dict[str, Any]:
        if block.kind is Kind.REASONING:
            return {"type": "thinking", "thinking": block.text, "signature": self._signature()}
        if block.kind is Kind.TEXT:
            return {"type": "text", "text": block.text}
        found = arguments(block.text)
        # Arguments cut short were generated and paid for: they are handed over as they are, under a name of their own.
        given = {"unfinished_arguments": block.text} if found is None else found
        return {"type": "tool_use", "id": self._call_id(block), "name": block.name, "input": given}

    def _call_id(self, block: Block) -> str:
        return block.call_id or f"toolu_{self._request_id.hex}_{block.number}"

    def _signature(self) -> str:
        """Clients send thinking back only with a signature; nothing here depends on it."""
        return self._request_id.hex

    def _stop_reason(self) -> tuple[str, str | None]:
        cutter = self._cutter
        if cutter.finish_reason == "length":
            return "max_tokens", None
        if cutter.finish_reason == "content_filter":
            return "refusal", None
        if cutter.stop_sequence is not None and not cutter.has_whole_calls:
            return "stop_sequence", cutter.stop_sequence
        return ("tool_use" if cutter.calls else "end_turn"), None

    def _usage(self, settled: Settled) -> dict[str, Any]:
        """Return the billed counts; the cached part of the prompt stands beside the rest of it, as Anthropic counts."""
        return {
            "input_tokens": settled.prompt_tokens - settled.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": settled.cached_tokens,
            "output_tokens": settled.completion_tokens,
            "cost": decimal_text(settled.charge_nano),
            "currency": self._currency,
        }


def _start(number: int, block: dict[str, Any]) -> bytes:
    return event("content_block_start", {"type": "content_block_start", "index": number, "content_block": block})


def _stop(number: int) -> bytes:
    return event("content_block_stop", {"type": "content_block_stop", "index": number})
