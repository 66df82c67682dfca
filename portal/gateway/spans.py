"""What a span tells, and who takes it; without OpenTelemetry, which only `traces` imports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

Tags = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class SpanFacts:
    """One span: its name, its times (Unix seconds), what it tells, and the code of what went wrong."""

    name: str
    started_at: float
    ended_at: float
    attributes: Tags
    error_code: str = ""


class SpanSink(Protocol):
    """Takes spans and sends them on, beside requests."""

    def request(self, request_id: UUID, facts: SpanFacts) -> None:
        """Take the span of a whole request."""

    def attempt(self, request_id: UUID, facts: SpanFacts) -> None:
        """Take the span of one attempt, below its request's."""

    def stop(self) -> None:
        """Send what waits. Blocking."""
