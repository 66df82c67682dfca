"""The bench's own arithmetic: costs a unit, ratios, targets, and what wrk's report says."""

import json

import pytest

from tests.bench import figures, paced, wrk
from tests.bench.figures import AgentRow, Profile, Sample, Target

OURS = Profile(
    nonstream_rps=5_000.0,
    nonstream_cpu_us=120.0,
    stream_cpu_us_per_token=10.0,
    unbatched_cpu_us_per_token=20.0,
    added_p50_ms=0.4,
    rss_mib=90.0,
)
THEIRS = Profile(
    nonstream_rps=10_000.0,
    nonstream_cpu_us=60.0,
    stream_cpu_us_per_token=12.5,
    unbatched_cpu_us_per_token=12.5,
    added_p50_ms=0.2,
    rss_mib=60.0,
)
REPORT = """\
Running 6s test @ http://127.0.0.1:8022
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     3.32ms  560.21us  10.34ms   87.79%
    Req/Sec     9.70k   655.86    10.57k    80.33%
  Latency Distribution
     50%    3.22ms
     75%    3.45ms
     90%  756.00us
     99%    1.05s
  57943 requests in 6.00s, 37.02MB read
  Socket errors: connect 0, read 1, write 0, timeout 3
  Non-2xx or 3xx responses: 12
Requests/sec:   9652.61
Transfer/sec:      6.17MB
"""


def test_a_sample_gives_the_cost_of_a_unit_and_the_share_of_a_core():
    sample = Sample(cpu_s=1.5, units=10_000, seconds=6.0)

    assert (sample.us_each, sample.core_share) == (150.0, 0.25)


def test_work_that_was_not_done_has_no_cost():
    assert Sample(cpu_s=1.0, units=0, seconds=0.0).us_each == 0.0
    assert Sample(cpu_s=1.0, units=0, seconds=0.0).core_share == 0.0


def test_a_line_is_the_one_that_the_interface_fixes():
    row = json.loads(figures.line("nonstream_rps", 5_000.0, "vllm-router", 10_000.0))

    assert row == {"figure": "nonstream_rps", "ours": 5000, "peer": "vllm-router", "theirs": 10000, "ratio": 0.5}


def test_a_peer_without_a_figure_has_no_ratio():
    assert json.loads(figures.line("rss_mib", 90.0, "litellm", 0.0))["ratio"] is None


def test_each_figure_stands_beside_each_peer():
    rows = [json.loads(row) for row in figures.lines(OURS, {"vllm-router": THEIRS, "litellm": THEIRS})]

    assert len(rows) == 2 * len(figures.FIGURES)
    assert {row["figure"] for row in rows} >= {"nonstream_rps", "stream_cpu_us_per_token", "added_p50_ms", "rss_mib"}
    assert next(row for row in rows if row["figure"] == "stream_cpu_us_per_token")["ratio"] == 0.8


def test_without_peers_the_figures_stand_alone():
    assert json.loads(figures.lines(OURS, {})[0]) == {"figure": "nonstream_rps", "ours": 5000.0}


@pytest.mark.parametrize(
    ("target", "value", "is_met"),
    [
        (Target("nonstream_rps", "vllm-router", 0.5, is_floor=True), 0.5, True),
        (Target("nonstream_rps", "vllm-router", 0.6, is_floor=True), 0.5, False),
        (Target("unbatched_cpu_us_per_token", "vllm-router", 1.6), 1.6, True),
        (Target("stream_cpu_us_per_token", "vllm-router", 0.7), 0.8, False),
        (Target("added_p50_ms", None, 0.5), 0.4, True),
        (Target("rss_mib", None, 80.0), 90.0, False),
    ],
)
def test_a_target_is_met_at_its_limit_and_on_its_side_of_it(target, value, is_met):
    assert target.value(OURS, {"vllm-router": THEIRS}) == value
    assert target.is_met(value) is is_met


def test_the_table_says_which_targets_were_not_measured():
    rows = figures.table(OURS, {"vllm-router": THEIRS})

    assert "| nonstream_rps | vllm-router | ≥ 0.5 x | 0.5 | met |" in rows
    assert "| nonstream_rps | litellm | ≥ 50 x | not measured |  |" in rows
    assert "| added_p50_ms |  | ≤ 0.5 | 0.4 | met |" in rows


def test_the_load_generators_report_is_read():
    load = wrk.parse(REPORT)

    assert (load.requests, load.requests_a_second) == (57_943, 9_652.61)
    assert (load.p50_ms, load.p99_ms) == (3.22, 1_050.0)
    assert load.errors == 16


def test_a_report_without_a_rate_is_an_error():
    with pytest.raises(wrk.LoadFailed):
        wrk.parse("unable to connect to 127.0.0.1:8022 Connection refused")


def test_first_tokens_are_told_by_their_percentiles_and_torn_streams_are_counted():
    seen = paced.summary([0.001 * number for number in range(101)], streams=110, whole=100)

    assert (seen.streams, seen.failed) == (110, 10)
    assert (seen.first_token_p50_ms, seen.first_token_p99_ms) == (pytest.approx(50), pytest.approx(99))


def test_streams_that_brought_nothing_have_no_percentiles():
    assert paced.summary([], streams=3, whole=0) == paced.Paced(3, 3, 0.0, 0.0)


def test_the_row_through_the_real_agent_names_its_node_and_has_no_unbatched_figure():
    rows = [json.loads(line) for line in figures.agent_lines(AgentRow(OURS, agent_cpu_s=2.0, agent_rss_mib=40.0))]

    shown = {row["figure"]: row["ours"] for row in rows}
    assert {row["node"] for row in rows} == {"agent"}
    assert shown["nonstream_rps"] == 5_000.0
    assert (shown["agent_cpu_s"], shown["agent_rss_mib"]) == (2.0, 40.0)
    assert "unbatched_cpu_us_per_token" not in shown
