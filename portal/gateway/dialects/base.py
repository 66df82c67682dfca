"""What every dialect of the API offers, and the pieces that several of them share."""

from typing import Any, Final, Protocol
from uuid import UUID

import orjson

from portal.core.money import decimal_text
from portal.core.records import record
from portal.gateway.contracts import Settled
from portal.gateway.errors import ApiError

Choices = list[dict[str, Any]]

# A single line feed: openai's clients stumble over a comment followed by a blank line.
COMMENT_PING: Final = b": ping\n"
DONE_EVENT: Final = b"data: [DONE]\n\n"


@record(frozen=True, slots=True)
class Stamp:
    """What a dialect must know besides the request: whose answer it is, since when, in which currency it is paid."""

    request_id: UUID
    created: int
    currency: str


@record(frozen=True, slots=True)
class Names:
    """What every answer to one request carries. `stops`: texts that the dialect tells as reasons to end."""

    answer_id: str
    created: int
    model: str
    choices: int
    has_logprobs: bool
    stops: frozenset[str] = frozenset()
    vector_length: int = 0
    is_base64: bool = False


class Wording(Protocol):
    """How errors are put."""

    def error(self, error: ApiError) -> bytes:
        """Return the event that ends a begun stream; the clean terminator never follows it."""

    def refusal(self, error: ApiError) -> tuple[int, dict[str, Any]]:
        """Return the status and body of an error before the start."""


class Dialect(Wording, Protocol):
    """How an answer in one piece is put. One object a request."""

    def whole(self, choices: Choices, settled: Settled) -> dict[str, Any]:
        """Return the answer in one piece."""


class StreamDialect(Dialect, Protocol):
    """How an answer in pieces is put. It gets only choices that reach the customer, each once and in their order."""

    @property
    def needs_settled(self) -> bool:
        """Whether `end` needs the bill, so that the attempt is settled before the end is written."""

    def begin(self) -> bytes:
        """Return the events before the first delta."""

    def delta(self, choices: Choices) -> bytes:
        """Return the events for rebuilt choices of one event of the node."""

    def end(self, settled: Settled | None) -> bytes:
        """Return everything up to and with the terminator."""

    def ping(self) -> bytes:
        """Return what keeps a waiting connection alive."""


class OpenAIWording:
    """Errors in OpenAI's shape."""

    __slots__ = ()

    def error(self, error: ApiError) -> bytes:
        """Return the error as the last event of a stream."""
        return event(error.body())

    def refusal(self, error: ApiError) -> tuple[int, dict[str, Any]]:
        """Return the status and the error object."""
        return error.status, error.body()


OPENAI: Final[Wording] = OpenAIWording()


def event(value: dict[str, Any]) -> bytes:
    """Return a server-sent event."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def usage_object(settled: Settled, currency: str) -> dict[str, Any]:
    """Return the billed counts and what they cost."""
    return {
        "prompt_tokens": settled.prompt_tokens,
        "completion_tokens": settled.completion_tokens,
        "total_tokens": settled.prompt_tokens + settled.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": settled.cached_tokens},
        "cost": decimal_text(settled.charge_nano),
        "currency": currency,
    }
