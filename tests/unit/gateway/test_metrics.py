"""Figures are merged over processes, outlive them, and name nobody."""

import os
import subprocess
import sys

import pytest

from portal.gateway.metrics import GatewayMetrics, Served, Standing

_PROCESS = """
import sys
from pathlib import Path
from portal.gateway.metrics import GatewayMetrics, Served, Standing
metrics = GatewayMetrics(folder=Path(sys.argv[1]), index=int(sys.argv[2]))
metrics.answered(path="/v1/chat/completions", status=200, code="")
metrics.served(Served("chat/completions", "acme/m", 100, 21, 0.5, 2.5))
metrics.stands(Standing(running=int(sys.argv[2]) + 1, tunnels=2, queued=0, unshipped=0, snapshot_age_s=1.0, loop_lag_s=0.0,
    evidence_dropped=1, sightings_dropped=0))
if len(sys.argv) > 3:
    print(metrics.page().decode())
"""  # noqa: E501  a program, not a sentence


def _run(folder, index: int, *more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROMETHEUS")}
    return subprocess.run(
        [sys.executable, "-c", _PROCESS, str(folder), str(index), *more],
        check=True, capture_output=True, text=True, env=environment,
    ).stdout  # fmt: skip


def test_any_process_answers_for_all_and_a_successor_counts_on(tmp_path):
    _run(tmp_path, 0)
    _run(tmp_path, 1)

    page = _run(tmp_path, 0, "page")

    assert 'poolhouse_gateway_requests_total{code="",path="/v1/chat/completions",status="200"} 3.0' in page
    assert "poolhouse_gateway_running 3.0" in page
    assert "poolhouse_gateway_evidence_dropped 2.0" in page
    assert "poolhouse_gateway_snapshot_age_s 1.0" in page


@pytest.fixture
def metrics() -> GatewayMetrics:
    return GatewayMetrics()


def _value(metrics: GatewayMetrics, line: str) -> str:
    (found,) = [row for row in metrics.page().decode().splitlines() if row.startswith(line)]
    return found.rpartition(" ")[2]


def test_billed_tokens_and_times_carry_opentelemetrys_names(metrics):
    metrics.served(Served("chat/completions", "acme/m", 100, 21, 0.5, 2.5))

    what = 'gen_ai_operation_name="chat",gen_ai_request_model="acme/m"'
    assert _value(metrics, f'gen_ai_client_token_usage_sum{{{what},gen_ai_token_type="input"}}') == "100.0"
    assert _value(metrics, f'gen_ai_client_token_usage_sum{{{what},gen_ai_token_type="output"}}') == "21.0"
    assert _value(metrics, f"gen_ai_server_request_duration_seconds_sum{{{what}}}") == "2.5"
    assert _value(metrics, f"gen_ai_server_time_to_first_token_seconds_sum{{{what}}}") == "0.5"
    assert _value(metrics, f"gen_ai_server_time_per_output_token_seconds_sum{{{what}}}") == "0.1"


def test_an_embedding_has_its_own_operation_and_no_first_token(metrics):
    metrics.served(Served("embeddings", "acme/e", 7, 0, None, 0.1))

    what = 'gen_ai_operation_name="embeddings",gen_ai_request_model="acme/e"'
    assert _value(metrics, f"gen_ai_server_request_duration_seconds_count{{{what}}}") == "1.0"
    assert _value(metrics, f"gen_ai_server_time_to_first_token_seconds_count{{{what}}}") == "0.0"


def test_a_process_that_leaves_takes_its_gauges_along(metrics):
    metrics.stands(
        Standing(
            running=5,
            tunnels=1,
            queued=2,
            unshipped=3,
            snapshot_age_s=0.5,
            loop_lag_s=0.1,
            evidence_dropped=4,
            sightings_dropped=0,
        )
    )
    metrics.leave()

    assert _value(metrics, "poolhouse_gateway_running") == "0.0"


# litellm#39455: three attempts were three requests in the reports.
def test_attempts_and_requests_are_counted_apart(metrics):
    for outcome in ("node_fault", "node_fault", "completed"):
        metrics.attempted(outcome)
    metrics.answered(path="/v1/chat/completions", status=200, code="")

    assert _value(metrics, 'poolhouse_gateway_attempts_total{outcome="node_fault"}') == "2.0"
    assert _value(metrics, "poolhouse_gateway_requests_total{") == "1.0"
