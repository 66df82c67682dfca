"""What admission and relay ask of an endpoint."""

from typing import Any, Protocol, Self
from uuid import UUID

from portal.core.records import record
from portal.gateway.contracts import ModelEntry
from portal.gateway.dialects.base import OPENAI, Dialect, Names, Stamp, StreamDialect, Wording
from portal.gateway.errors import Headers
from portal.gateway.fields.asked import Asked
from portal.gateway.rewrite import Generated


class Reader(Protocol):
    """Rebuilds what a node answers on one of its paths."""

    def chunk(self, value: dict[str, Any], names: Names) -> Generated:
        """Rebuild one event of a stream. Raises NodeFailed."""

    def answer(self, value: dict[str, Any], names: Names) -> Generated:
        """Rebuild a whole answer. Raises NodeFailed."""


@record(frozen=True, slots=True)
class Translation:
    """One request in a node's words, and how its answer is put into the customer's; `stream` where that has pieces."""

    asked: Asked
    names: Names
    dialect: Dialect
    stream: StreamDialect | None = None

    @classmethod
    def of(cls, asked: Asked, names: Names, dialect: StreamDialect) -> Self:
        """Return the translation of a request that may be answered either way."""
        return cls(asked, names, dialect, dialect if asked.is_stream else None)


class Endpoint(Protocol):
    """One metered endpoint; it has no state."""

    @property
    def task(self) -> str:
        """The kind of model it calls."""

    @property
    def node_path(self) -> str:
        """The path below /v1/ at the node."""

    @property
    def reader(self) -> Reader:
        """What reads the node's answers."""

    def wording(self, request_id: UUID) -> Wording:
        """Return how errors are put before the request is understood."""

    def headers(self, request_id: UUID) -> Headers:
        """Return the headers that all its answers carry besides the common ones."""

    def translate(self, raw: dict[str, Any], model: ModelEntry, stamp: Stamp) -> Translation:
        """Check and translate the request. Raises ApiError naming the field."""


class InOpenAIsWords:
    """An endpoint whose errors are put as OpenAI puts them, without headers of its own."""

    def wording(self, request_id: UUID) -> Wording:
        """Return OpenAI's."""
        del request_id
        return OPENAI

    def headers(self, request_id: UUID) -> Headers:
        """Return none."""
        del request_id
        return ()
