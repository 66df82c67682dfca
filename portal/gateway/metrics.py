"""Prometheus figures of the gateway: kept by each process in a file of its own, merged when any of them is asked.

Names are OpenTelemetry's for generative AI where it has one (as Prometheus spells them), `poolhouse_gateway_*` else.
Tokens are the billed ones. No label names a customer, a key or a node: those are in the records.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector

from portal.core.records import record

_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
# The buckets that OpenTelemetry advises for each of its instruments.
_DURATION_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST_TOKEN_S: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_PER_TOKEN_S: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_TOKENS: Final = tuple(4**power for power in range(14))
_WHAT: Final = ("gen_ai_operation_name", "gen_ai_request_model")
_OPERATIONS: Final = {"completions": "text_completion", "embeddings": "embeddings"}


def operation(endpoint: str) -> str:
    """Return OpenTelemetry's name of what an endpoint does; messages and responses are chats."""
    return _OPERATIONS.get(endpoint, "chat")


@record(frozen=True, slots=True)
class Served:
    """One charged attempt: billed tokens, and seconds from admission to the first token and to the end."""

    endpoint: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    first_token_s: float | None
    total_s: float


@dataclass(frozen=True, slots=True)
class Standing:
    """How a process stands at the moment."""

    running: int
    tunnels: int
    queued: int
    unshipped: int
    snapshot_age_s: float
    loop_lag_s: float
    evidence_dropped: int
    sightings_dropped: int


class GatewayMetrics:
    """One object a process. With a folder, what was counted outlives the process: its successor counts on."""

    def __init__(self, *, folder: Path | None = None, index: int = 0) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # theirs
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # prometheus_client has no other way to be told: both are read when an instrument is made.
            os.environ[_FOLDER] = str(folder)
            values.ValueClass = values.MultiProcessValue(lambda: index)  # type: ignore[no-untyped-call]  # theirs
        self._folder = folder
        self._registry = CollectorRegistry()
        own = None if folder is not None else self._registry
        self._requests = Counter(
            "poolhouse_gateway_requests", "Answered requests by status and error code", ("path", "status", "code"),
            registry=own,
        )  # fmt: skip
        self._attempts = Counter(
            "poolhouse_gateway_attempts", "Attempts at nodes by how they ended", ("outcome",), registry=own
        )
        self._duration = Histogram(
            "gen_ai_server_request_duration_seconds", "From admission to the end of the answer", _WHAT,
            buckets=_DURATION_S, registry=own,
        )  # fmt: skip
        self._first_token = Histogram(
            "gen_ai_server_time_to_first_token_seconds", "From admission to the first token of a stream", _WHAT,
            buckets=_FIRST_TOKEN_S, registry=own,
        )  # fmt: skip
        self._per_token = Histogram(
            "gen_ai_server_time_per_output_token_seconds", "Between tokens after the first one", _WHAT,
            buckets=_PER_TOKEN_S, registry=own,
        )  # fmt: skip
        self._tokens = Histogram(
            "gen_ai_client_token_usage", "Billed tokens of an answer", (*_WHAT, "gen_ai_token_type"),
            buckets=_TOKENS, registry=own,
        )  # fmt: skip
        self._gauges = {
            name: Gauge(f"poolhouse_gateway_{name}", text, registry=own, multiprocess_mode=mode)
            for name, text, mode in _GAUGES
        }
        self._children: dict[tuple[str, str], _Children] = {}
        self._request_children: dict[tuple[str, int, str], Any] = {}
        self._attempt_children: dict[str, Any] = {}

    def answered(self, *, path: str, status: int, code: str) -> None:
        """Count an answer; `path` is one of ours, or the one word for all others."""
        key = (path, status, code)
        child = self._request_children.get(key)
        if child is None:
            child = self._request_children[key] = self._requests.labels(path, str(status), code)
        child.inc()

    def attempted(self, outcome: str) -> None:
        """Count the end of an attempt."""
        child = self._attempt_children.get(outcome)
        if child is None:
            child = self._attempt_children[outcome] = self._attempts.labels(outcome)
        child.inc()

    def served(self, seen: Served) -> None:
        """Take the figures of an attempt that was charged."""
        key = (seen.endpoint, seen.model)
        children = self._children.get(key)
        if children is None:
            children = self._children[key] = self._make(*key)
        children.duration.observe(seen.total_s)
        children.input.observe(seen.prompt_tokens)
        children.output.observe(seen.completion_tokens)
        if seen.first_token_s is not None:
            children.first_token.observe(seen.first_token_s)
            if seen.completion_tokens > 1:
                children.per_token.observe((seen.total_s - seen.first_token_s) / (seen.completion_tokens - 1))

    def stands(self, standing: Standing) -> None:
        """Set the gauges."""
        for name, gauge in self._gauges.items():
            gauge.set(getattr(standing, name))

    def page(self) -> bytes:
        """Return Prometheus' text, of all processes that share the folder. Blocking: it reads their files."""
        if self._folder is None:
            return generate_latest(self._registry)
        merged = CollectorRegistry()
        MultiProcessCollector(merged, path=str(self._folder))  # type: ignore[no-untyped-call]  # theirs
        return generate_latest(merged)

    def leave(self) -> None:
        """Take this process's gauges off the page; its counters stay."""
        self.stands(Standing(0, 0, 0, 0, 0.0, 0.0, 0, 0))

    def _make(self, endpoint: str, model: str) -> "_Children":
        what = (operation(endpoint), model)
        return _Children(
            duration=self._duration.labels(*what),
            first_token=self._first_token.labels(*what),
            per_token=self._per_token.labels(*what),
            input=self._tokens.labels(*what, "input"),
            output=self._tokens.labels(*what, "output"),
        )


_GAUGES: Final[tuple[tuple[str, str, Literal["sum", "max"]], ...]] = (
    ("running", "Admitted requests that run", "sum"),
    ("tunnels", "Nodes connected", "sum"),
    ("queued", "Requests that wait for a node", "sum"),
    ("unshipped", "Closed records that are not in the database yet", "sum"),
    ("snapshot_age_s", "Seconds since keys and prices were last confirmed, of the process that is worst off", "max"),
    ("evidence_dropped", "Facts against nodes that found no place to wait, since the processes began", "sum"),
    ("sightings_dropped", "Places of keys' use that found no place to wait, since the processes began", "sum"),
    ("loop_lag_s", "Seconds by which the event loop ran late, of the process that is worst off", "max"),
)


@dataclass(frozen=True, slots=True)
class _Children:
    """The instruments of one operation and model, with their labels bound."""

    duration: Any
    first_token: Any
    per_token: Any
    input: Any
    output: Any
