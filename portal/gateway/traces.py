"""OpenTelemetry spans: a request is a trace, an attempt a span in it. Imported only where spans are asked for.

The trace's id is the request's id, so that whoever has one has the other. Spans carry counts and names, never content.
"""

import hashlib
from typing import Final, Self
from uuid import UUID

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from portal.gateway.spans import SpanFacts

_NANO: Final = 1_000_000_000
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class Traces:
    """Exports spans in a thread of the SDK's own; what cannot be sent is dropped there."""

    def __init__(self, provider: TracerProvider, ids: "RequestIds") -> None:
        self._provider = provider
        self._ids = ids
        self._tracer = provider.get_tracer("poolhouse.gateway")

    @classmethod
    def over_http(cls, *, process: str) -> Self:
        """Return traces that go where the SDK's own OTEL_EXPORTER_OTLP_* say."""
        ids = RequestIds()
        resource = Resource.create({"service.name": "poolhouse-gateway", "service.instance.id": process})
        provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider, ids)

    def request(self, request_id: UUID, facts: SpanFacts) -> None:
        """Export the span of a whole request."""
        self._ids.next_trace, self._ids.next_span = request_id.int, _root(request_id)
        self._export(facts, context=Context(), kind=SpanKind.SERVER)

    def attempt(self, request_id: UUID, facts: SpanFacts) -> None:
        """Export the span of one attempt, below its request's."""
        parent = SpanContext(request_id.int, _root(request_id), is_remote=False, trace_flags=_SAMPLED)
        self._export(facts, context=set_span_in_context(NonRecordingSpan(parent), Context()), kind=SpanKind.CLIENT)

    def stop(self) -> None:
        """Send what waits, within the SDK's own deadline. Blocking."""
        self._provider.shutdown()

    def _export(self, facts: SpanFacts, *, context: Context, kind: SpanKind) -> None:
        started = int(facts.started_at * _NANO)
        span = self._tracer.start_span(facts.name, context=context, kind=kind, start_time=started)
        span.set_attributes(facts.attributes)
        if facts.error_code:
            span.set_attribute("error.type", facts.error_code)
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=int(facts.ended_at * _NANO))


class RequestIds(IdGenerator):
    """Hands the SDK our ids for a request's trace and its first span, random ones for all others."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self.next_trace = 0
        self.next_span = 0

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        given, self.next_trace = self.next_trace, 0
        return given or self._random.generate_trace_id()

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        given, self.next_span = self.next_span, 0
        return given or self._random.generate_span_id()

    def is_trace_id_random(self) -> bool:
        """Tell that the last 56 bits are random, as a UUID of version 7 has them."""
        return True


def _root(request_id: UUID) -> int:
    return int.from_bytes(hashlib.sha256(request_id.bytes).digest()[:8]) or 1
