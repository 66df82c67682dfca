"""Spans of a request and its attempts arrive at a collector as one trace whose id is the request's."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest
from django.core.exceptions import ImproperlyConfigured
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from portal.gateway import seeing
from portal.gateway.spans import SpanFacts

REQUEST = UUID("0190a5c0-7d2b-7cc3-98c4-dc0c0c07398f")


class _Collector(ThreadingHTTPServer):
    """Keeps the spans that are posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list = []


class _Handler(BaseHTTPRequestHandler):
    server: _Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[_Collector]:
    server = _Collector()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_request_and_its_attempts_are_one_trace(collector, monkeypatch):
    monkeypatch.setenv(seeing.OTLP_ENDPOINT, f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    traces = seeing.traces_from_environment(process="gateway@0.test")
    assert traces is not None

    traces.attempt(REQUEST, SpanFacts("attempt 1", 10.0, 11.0, {"poolhouse.attempt": 1}, "node_timeout"))
    traces.attempt(REQUEST, SpanFacts("attempt 2", 11.0, 12.5, {"gen_ai.usage.output_tokens": 21}))
    traces.request(REQUEST, SpanFacts("POST /v1/chat/completions", 9.5, 12.5, {"http.response.status_code": 200}))
    traces.stop()

    first, second, whole = collector.spans
    assert {span.trace_id for span in collector.spans} == {REQUEST.bytes}
    assert (whole.parent_span_id, first.parent_span_id, second.parent_span_id) == (b"", whole.span_id, whole.span_id)
    assert [span.name for span in collector.spans] == ["attempt 1", "attempt 2", "POST /v1/chat/completions"]
    assert (first.start_time_unix_nano, first.end_time_unix_nano) == (10_000_000_000, 11_000_000_000)
    assert {item.key for item in first.attributes} == {"poolhouse.attempt", "error.type"}
    assert (first.status.code, second.status.code) == (2, 0)


def test_nobody_asked_for_spans(monkeypatch):
    monkeypatch.delenv(seeing.OTLP_ENDPOINT, raising=False)

    assert seeing.traces_from_environment(process="gateway@0.test") is None


def test_without_opentelemetry_the_start_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setenv(seeing.OTLP_ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setitem(__import__("sys").modules, "portal.gateway.traces", None)

    with pytest.raises(ImproperlyConfigured, match=r"pip install 'poolhouse\[otlp\]'"):
        seeing.traces_from_environment(process="gateway@0.test")
