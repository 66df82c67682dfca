"""A chat's answer as a response: output items, numbered events in their order, usage that says what it cost."""

import itertools
from typing import Any, Final

import orjson

from portal.core.money import decimal_text
from portal.gateway.contracts import Settled
from portal.gateway.dialects.base import Choices, Stamp
from portal.gateway.dialects.blocks import Block, BlockCutter, Kind, Moment, Step
from portal.gateway.dialects.responses.wording import ResponsesWording, renamed
from portal.gateway.errors import ApiError

_IS_DELTA: Final = Moment.DELTA
# Written once a token: filled forms instead of objects.
_DELTA: Final = b'event: %b\ndata: {"type":"%b","sequence_number":%d,"item_id":"%b","output_index":%d%b,"delta":%b}\n\n'
_DELTAS: Final = {
    Kind.REASONING: (b"response.reasoning_text.delta", b',"content_index":0'),
    Kind.TEXT: (b"response.output_text.delta", b',"content_index":0,"logprobs":[]'),
    Kind.CALL: (b"response.function_call_arguments.delta", b""),
}
_PREFIXES: Final = {Kind.REASONING: "rs", Kind.TEXT: "msg", Kind.CALL: "fc"}
_CUT_SHORT: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesDialect(ResponsesWording):
    """One answer."""

    __slots__ = ("_base", "_currency", "_cutter", "_numbers", "_shell")

    needs_settled: Final = True

    def __init__(self, shell: dict[str, Any], stamp: Stamp) -> None:
        self._shell = shell
        self._base = stamp.request_id.hex
        self._currency = stamp.currency
        self._cutter = BlockCutter()
        self._numbers = itertools.count()

    def begin(self) -> bytes:
        """Return the response as it is created and as it is under way."""
        begun = orjson.Fragment(orjson.dumps(self._shell))
        return self._event("response.created", response=begun) + self._event("response.in_progress", response=begun)

    def delta(self, choices: Choices) -> bytes:
        """Return the events of the items that these choices began, continued and ended."""
        return b"".join(map(self._events, self._cutter.take(choices)))

    def end(self, settled: Settled | None) -> bytes:
        """Return the ends of open items and the whole response."""
        out = [self._events(step) for step in self._cutter.end()]
        response = self._response(settled)
        out.append(self._event(f"response.{response['status']}", response=response))
        return b"".join(out)

    def ping(self) -> bytes:
        """Return the state once more: an event with data, which clients' idle timers hear."""
        return self._event("response.in_progress", response=self._shell)

    def whole(self, choices: Choices, settled: Settled) -> dict[str, Any]:
        """Return the response in one piece."""
        self._cutter.take(choices)
        return self._response(settled)

    def error(self, error: ApiError) -> bytes:
        """Return the failed response, which ends the stream; what came before it is not repeated."""
        fault = {"code": error.code, "message": renamed(error.message)}
        return self._event("response.failed", response=self._shell | {"status": "failed", "error": fault})

    def _events(self, step: Step) -> bytes:
        if step.moment is _IS_DELTA:
            return self._delta(step)
        if step.block.kind is Kind.CALL:
            return self._call_events(step)
        return self._text_events(step)

    def _delta(self, step: Step) -> bytes:
        block = step.block
        kind, more = _DELTAS[block.kind]
        if step.logprobs:
            more = b',"content_index":0,"logprobs":%b' % orjson.dumps(step.logprobs)
        item_id = self._item_id(block).encode()
        return _DELTA % (kind, kind, next(self._numbers), item_id, block.number, more, orjson.dumps(step.text))

    def _text_events(self, step: Step) -> bytes:
        """Return the events of a message or of reasoning: an item with a single part."""
        block = step.block
        where = self._where(block) | {"content_index": 0}
        is_text = block.kind is Kind.TEXT
        kind = "output_text" if is_text else "reasoning_text"
        part = _part(block, is_started=step.moment is Moment.STOP)
        if step.moment is Moment.START:
            opened = self._item_event("added", block, self._item(block, "in_progress", has_content=False))
            return opened + self._event("response.content_part.added", **where, part=part)
        more = {"logprobs": block.logprobs} if is_text else {}
        return b"".join(
            (
                self._event(f"response.{kind}.done", **where, text=block.text, **more),
                self._event("response.content_part.done", **where, part=part),
                self._item_event("done", block, self._item(block, self._item_status(block))),
            )
        )

    def _call_events(self, step: Step) -> bytes:
        block = step.block
        if step.moment is Moment.START:
            return self._item_event("added", block, self._item(block, "in_progress", has_content=False))
        done = self._event(
            "response.function_call_arguments.done", **self._where(block), name=block.name, arguments=block.text
        )
        return done + self._item_event("done", block, self._item(block, self._item_status(block)))

    def _item_event(self, moment: str, block: Block, item: dict[str, Any]) -> bytes:
        return self._event(f"response.output_item.{moment}", output_index=block.number, item=item)

    def _item(self, block: Block, status: str, *, has_content: bool = True) -> dict[str, Any]:
        item: dict[str, Any] = {"id": self._item_id(block), "status": status}
        parts = [_part(block)] if has_content else []
        if block.kind is Kind.TEXT:
            return item | {"type": "message", "role": "assistant", "content": parts}
        if block.kind is Kind.REASONING:
            return item | {"type": "reasoning", "summary": [], "content": parts, "encrypted_content": None}
        call_id = block.call_id or f"call_{self._base}_{block.number}"
        arguments = block.text if has_content else ""
        return item | {"type": "function_call", "call_id": call_id, "name": block.name, "arguments": arguments}

    def _response(self, settled: Settled | None) -> dict[str, Any]:
        reason = _CUT_SHORT.get(self._cutter.finish_reason or "")
        return self._shell | {
            "status": "completed" if reason is None else "incomplete",
            "incomplete_details": reason and {"reason": reason},
            "output": [self._item(block, self._item_status(block)) for block in self._cutter.blocks],
            "usage": settled and self._usage(settled),
        }

    def _item_status(self, block: Block) -> str:
        """Only the last item can have been cut short."""
        is_cut = self._cutter.finish_reason in _CUT_SHORT and block is self._cutter.blocks[-1]
        return "incomplete" if is_cut else "completed"

    def _usage(self, settled: Settled) -> dict[str, Any]:
        has_reasoning = any(block.kind is Kind.REASONING for block in self._cutter.blocks)
        return {
            "input_tokens": settled.prompt_tokens,
            "input_tokens_details": {"cached_tokens": settled.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": settled.completion_tokens,
            # Null is unknown: the share of reasoning is neither billed nor counted on its own.
            "output_tokens_details": {"reasoning_tokens": None if has_reasoning else 0},
            "total_tokens": settled.prompt_tokens + settled.completion_tokens,
            "cost": decimal_text(settled.charge_nano),
            "currency": self._currency,
        }

    def _where(self, block: Block) -> dict[str, Any]:
        return {"item_id": self._item_id(block), "output_index": block.number}

    def _item_id(self, block: Block) -> str:
        return f"{_PREFIXES[block.kind]}_{self._base}_{block.number}"

    def _event(self, kind: str, **fields: object) -> bytes:
        value = {"type": kind, "sequence_number": next(self._numbers), **fields}
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(value))


def _part(block: Block, *, is_started: bool = True) -> dict[str, Any]:
    text = block.text if is_started else ""
    if block.kind is Kind.REASONING:
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": block.logprobs if is_started else []}
