"""`/v1/chat/completions` as its customers read it."""

from typing import Final

import orjson

from portal.gateway.dialects.base import Names
from portal.gateway.dialects.openai import Envelope

_END: Final = b'},"logprobs":null,"finish_reason":null}]'


class ChatDialect(Envelope):
    """Chat completions."""

    __slots__ = ("_after_text", "_before_text")

    chunk_kind = "chat.completion.chunk"
    answer_kind = "chat.completion"

    def __init__(self, names: Names, *, currency: str, wants_usage: bool) -> None:
        super().__init__(names, currency=currency, wants_usage=wants_usage)
        envelope = orjson.dumps(self._envelope(self.chunk_kind))
        self._before_text = b"data: " + envelope[:-1] + b',"choices":[{"index":0,"delta":{"content":'
        self._after_text = _END + (b',"usage":null}' if wants_usage else b"}") + b"\n\n"

    def text(self, text: str) -> bytes:
        """Return what `delta` does for the first choice's plain text, as nearly all events are, for a third of it."""
        return self._before_text + orjson.dumps(text) + self._after_text
