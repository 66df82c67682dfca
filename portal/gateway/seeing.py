"""What operators see of a process: its figures, and its spans where somebody collects them."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from django.core.exceptions import ImproperlyConfigured

from portal.gateway import background
from portal.gateway.contracts import Attempt, Settled
from portal.gateway.exchange import Exchange
from portal.gateway.metrics import GatewayMetrics, Served, Standing, operation
from portal.gateway.spans import SpanFacts, SpanSink, Tags
from portal.settings import env

OTLP_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_EVERY_S: Final = 1.0
_OTHER: Final = "other"
_GONE_STATUS: Final = 499


def traces_from_environment(*, process: str) -> SpanSink | None:
    """Return where spans go; None where nobody asked for them. Raises ImproperlyConfigured without the SDK."""
    if not env.text(OTLP_ENDPOINT):
        return None
    try:
        from portal.gateway.traces import Traces
    except ImportError as error:
        message = f"{OTLP_ENDPOINT} is set, but OpenTelemetry is not here: pip install 'poolhouse[otlp]', or unset it"
        raise ImproperlyConfigured(message) from error
    return Traces.over_http(process=process)


class Seeing:
    """Takes note of every answer and every attempt; `standing` tells how the process stands, each second."""

    def __init__(
        self, *, metrics: GatewayMetrics, traces: SpanSink | None, standing: Callable[[float], Standing]
    ) -> None:
        self.metrics = metrics
        self._traces = traces
        self._standing = standing
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to set the gauges."""
        self._task = background.start(self._each_second())

    async def stop(self) -> None:
        """Take the gauges off the page and send the last spans."""
        await background.stop(self._task)
        self.metrics.leave()
        if self._traces is not None:
            await asyncio.to_thread(self._traces.stop)

    def answered(self, exchange: Exchange, *, path: str | None) -> None:
        """Count a request that is over; `path` is None for one we do not have."""
        status = exchange.status or _GONE_STATUS
        code = exchange.error_code or ("customer_gone" if exchange.is_gone else "")
        self.metrics.answered(path=path or _OTHER, status=status, code=code)
        if self._traces is not None and path is not None:
            self._trace_request(self._traces, exchange, path, status, code)

    def closed(self, attempt: Attempt, settled: Settled, error_code: str) -> None:
        """Count an attempt that is settled."""
        now = time.time()
        facts = attempt.facts
        self.metrics.attempted(settled.outcome)
        if settled.token_source != "none":  # noqa: S105  where counts come from
            first_at = attempt.first_token_at if facts.is_stream else None
            self.metrics.served(
                Served(
                    endpoint=facts.endpoint,
                    model=facts.model.public_id,
                    prompt_tokens=settled.prompt_tokens,
                    completion_tokens=settled.completion_tokens,
                    first_token_s=None if first_at is None else max(0.0, first_at - facts.opened_at),
                    total_s=max(0.0, now - facts.opened_at),
                )
            )
        if self._traces is not None:
            self._trace_attempt(self._traces, attempt, settled, error_code, now)

    @staticmethod
    def _trace_request(traces: SpanSink, exchange: Exchange, path: str, status: int, code: str) -> None:
        attributes: Tags = {
            "http.request.method": exchange.method,
            "url.path": path,
            "http.response.status_code": status,
        }
        ended_at = time.time()
        traces.request(
            exchange.request_id,
            SpanFacts(f"{exchange.method} {path}", ended_at - exchange.seconds, ended_at, attributes, code),
        )

    @staticmethod
    def _trace_attempt(traces: SpanSink, attempt: Attempt, settled: Settled, error_code: str, now: float) -> None:
        facts = attempt.facts
        attributes: Tags = {
            "gen_ai.operation.name": operation(facts.endpoint),
            "gen_ai.request.model": facts.model.public_id,
            "gen_ai.usage.input_tokens": settled.prompt_tokens,
            "gen_ai.usage.output_tokens": settled.completion_tokens,
            "poolhouse.attempt": attempt.number,
            "poolhouse.node": attempt.node.public_id,
            "poolhouse.node_class": attempt.node.node_class,
            "poolhouse.outcome": settled.outcome,
            "poolhouse.token_source": settled.token_source,
        }
        traces.attempt(
            facts.request_id,
            SpanFacts(f"attempt {attempt.number}", attempt.opened_at, now, attributes, error_code),
        )

    async def _each_second(self) -> None:
        while True:
            due = time.monotonic() + _EVERY_S
            await asyncio.sleep(_EVERY_S)
            self.metrics.stands(self._standing(max(0.0, time.monotonic() - due)))
