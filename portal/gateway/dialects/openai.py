"""What OpenAI's two generating endpoints share: an envelope around choices, a usage event, `[DONE]`."""

from typing import Any, ClassVar

from portal.gateway.contracts import Settled
from portal.gateway.dialects.base import COMMENT_PING, DONE_EVENT, Choices, Names, OpenAIWording, event, usage_object


class Envelope(OpenAIWording):
    """Choices in an envelope; the subclass names the kinds of object."""

    __slots__ = ("_currency", "_names", "needs_settled")

    chunk_kind: ClassVar[str]
    answer_kind: ClassVar[str]

    def __init__(self, names: Names, *, currency: str, wants_usage: bool) -> None:
        self.needs_settled = wants_usage
        self._names = names
        self._currency = currency

    def begin(self) -> bytes:
        """Return nothing: the first delta begins the stream."""
        return b""

    def delta(self, choices: Choices) -> bytes:
        """Return one event."""
        chunk = self._envelope(self.chunk_kind)
        chunk["choices"] = choices
        if self.needs_settled:
            chunk["usage"] = None
        return event(chunk)

    def end(self, settled: Settled | None) -> bytes:
        """Return the usage where it was asked for, and the terminator."""
        if settled is None or not self.needs_settled:
            return DONE_EVENT
        usage = {"choices": [], "usage": usage_object(settled, self._currency)}
        return event(self._envelope(self.chunk_kind) | usage) + DONE_EVENT

    def ping(self) -> bytes:
        """Return a comment."""
        return COMMENT_PING

    def whole(self, choices: Choices, settled: Settled) -> dict[str, Any]:
        """Return the answer in one piece."""
        return self._envelope(self.answer_kind) | {"choices": choices, "usage": usage_object(settled, self._currency)}

    def _envelope(self, kind: str) -> dict[str, Any]:
        names = self._names
        return {"id": names.answer_id, "object": kind, "created": names.created, "model": names.model}
