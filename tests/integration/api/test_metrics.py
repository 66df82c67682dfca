"""The portal's figures are for whoever has the token; without one, for this machine alone."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.metering.services import hours
from tests.factories import metering as make
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import DeploymentFactory, GpuFactory, NodeFactory

pytestmark = pytest.mark.django_db

NODES = "/metrics/nodes"


def _lines(path: str = "/metrics", **request: object) -> dict[str, str]:
    response = Client().get(path, **request)
    assert response.status_code == 200
    rows = [line for line in response.content.decode().splitlines() if not line.startswith("#")]
    return dict(row.rpartition(" ")[::2] for row in rows)


def test_nodes_usage_and_money_are_told(settings):
    settings.METRICS_TOKEN = ""
    deployment = DeploymentFactory()
    NodeFactory(state="draining")
    model = CatalogModelFactory(public_id="acme/m")
    make.usage_record(model_id=model.pk, cached_tokens=40)
    hours.add_all()
    make.usage_record(model_id=model.pk)

    lines = _lines()

    assert lines['poolhouse_nodes{state="serving"}'] == "1.0"
    assert lines['poolhouse_nodes{state="draining"}'] == "1.0"
    assert lines[f'poolhouse_ready_nodes{{model="{deployment.model.public_id}"}}'] == "1.0"
    assert lines['poolhouse_usage_queued{reader="billing"}'] == "2.0"
    assert lines['poolhouse_usage_queued{reader="hours"}'] == "1.0"
    assert lines['poolhouse_billed_tokens_total{model="acme/m",type="cached"}'] == "40.0"
    assert lines['poolhouse_charged_nano_total{model="acme/m"}'] == "2000.0"
    assert lines['poolhouse_earned_nano_total{model="acme/m"}'] == "1600.0"
    assert lines['poolhouse_liabilities_nano{kind="provider"}'] == "0.0"


@pytest.mark.parametrize("header", ["", "Bearer wrong", "Bearer tok", "tok-en"])
def test_a_wrong_token_is_refused_even_from_here(settings, header):
    settings.METRICS_TOKEN = "tok-en"

    response = Client().get("/metrics", headers={"authorization": header})

    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_metrics_token"


def test_the_token_is_enough_from_anywhere(settings):
    settings.METRICS_TOKEN = "tok-en"

    assert _lines(REMOTE_ADDR="198.51.100.7", headers={"authorization": "Bearer tok-en"})


@pytest.mark.parametrize("request_", [{"REMOTE_ADDR": "198.51.100.7"}, {"headers": {"x-forwarded-for": "127.0.0.1"}}])
def test_without_a_token_only_this_machine_reads(settings, request_):
    settings.METRICS_TOKEN = ""

    assert [Client().get(path, **request_).status_code for path in ("/metrics", NODES)] == [401, 401]


def test_a_gpus_readings_are_exported_in_base_units_and_an_unknown_one_is_not(settings):
    settings.METRICS_TOKEN = ""
    values = {
        "power_mw": 28_500, "utilization_percent": 40, "clock_sm_mhz": 210, "clock_memory_mhz": 10_501,
        "ecc_uncorrected": 2, "energy_mj": 3_600_000, "throttle_reasons": 0x44, "xids": [79], "pcie_width": 4,
    }  # fmt: skip
    gpu = GpuFactory(report={"values": values, "missing": {"temperature_c": "not_supported"}, "instances": []})
    who = f'gpu="{gpu.uuid}",node="{gpu.node.public_id}"'

    lines = _lines(NODES)

    assert lines[f"poolhouse_gpu_power_watts{{{who}}}"] == "28.5"
    assert lines[f"poolhouse_gpu_utilization_ratio{{{who}}}"] == "0.4"
    assert lines[f'poolhouse_gpu_clock_hertz{{clock="sm",{who}}}'] == "2.1e+08"
    assert lines[f'poolhouse_gpu_clock_hertz{{clock="memory",{who}}}'] == "1.0501e+10"
    assert (
        lines[f'poolhouse_gpu_ecc_errors_total{{gpu="{gpu.uuid}",kind="uncorrected",node="{gpu.node.public_id}"}}']
        == "2.0"
    )
    assert lines[f"poolhouse_gpu_energy_joules_total{{{who}}}"] == "3600.0"
    assert lines[f"poolhouse_gpu_pcie_lanes{{{who}}}"] == "4.0"
    assert lines[f'poolhouse_gpu_held_back{{by="power_cap",{who}}}'] == "1.0"
    assert lines[f'poolhouse_gpu_held_back{{by="power_brake",{who}}}'] == "0.0"
    assert lines[f'poolhouse_gpu_xid{{{who},xid="79"}}'] == "1.0"
    assert lines[f"poolhouse_gpu_memory_bytes{{{who}}}"] == "2.5757220864e+10"
    assert lines[f"poolhouse_gpu_readable{{{who}}}"] == "1.0"
    assert not [name for name in lines if name.startswith(("poolhouse_gpu_temperature", "poolhouse_gpu_fan"))]


def test_a_gpu_that_cannot_be_read_has_no_readings_and_a_silent_nodes_are_not_told(settings):
    settings.METRICS_TOKEN = ""
    lost = GpuFactory(unread_code="gpu_is_lost", is_present=False, report={"values": {"temperature_c": 41}})
    GpuFactory(node__state="offline", report={"values": {"temperature_c": 41}})

    names = [line for line in _lines(NODES) if line.startswith("poolhouse_gpu_")]

    assert len(names) == 2
    assert all(lost.uuid in name for name in names)
    assert {at for name, at in _lines(NODES).items() if name.startswith("poolhouse_gpu_readable")} == {"0.0"}


def test_a_partitioned_gpu_has_its_slices(settings):
    settings.METRICS_TOKEN = ""
    slices = [{"uuid": "MIG-1", "memory_bytes": 20_937_965_568}, {"uuid": "MIG-2", "memory_bytes": None}]
    GpuFactory(report={"values": {"mig": 1}, "missing": {}, "instances": slices})

    found = {name: at for name, at in _lines(NODES).items() if name.startswith("poolhouse_gpu_slice")}

    assert list(found.values()) == ["2.0937965568e+10"]
    assert 'slice="MIG-1"' in next(iter(found))


def test_an_engine_tells_what_it_counts_and_nothing_else(settings):
    settings.METRICS_TOKEN = ""
    counting = DeploymentFactory(running=3, waiting=1, counters={"prompt_tokens_total": 7, "preemptions_total": 2})
    silent = DeploymentFactory(observed="stuck", counters={})
    DeploymentFactory(observed="stopped", counters={"prompt_tokens_total": 9})

    found = {name: at for name, at in _lines(NODES).items() if name.startswith("poolhouse_engine_")}

    def of(deployment, name, more=""):
        who = f'model="{deployment.model.public_id}",node="{deployment.node.public_id}"'
        return found.get(f"poolhouse_engine_{name}{{{who}{more}}}")

    assert (of(counting, "ready"), of(silent, "ready")) == ("1.0", "0.0")
    assert (of(counting, "requests_running"), of(counting, "requests_waiting")) == ("3.0", "1.0")
    assert of(counting, "tokens_total", ',type="prompt"') == "7.0"
    assert of(counting, "tokens_total", ',type="generation"') is None
    assert (of(counting, "preemptions_total"), of(silent, "preemptions_total")) == ("2.0", None)
    assert len(found) == 2 * 3 + 2


def test_no_name_is_somebody_elses(settings):
    settings.METRICS_TOKEN = ""
    GpuFactory(report={"values": {"power_mw": 1}})
    DeploymentFactory(counters={"prompt_tokens_total": 7})

    assert {name.partition("_")[0] for name in _lines(NODES)} == {"poolhouse"}


def test_many_gpus_cost_no_more_queries(settings, django_assert_num_queries):
    settings.METRICS_TOKEN = ""
    GpuFactory()
    with CaptureQueriesContext(connection) as one:
        _lines(NODES)
    GpuFactory.create_batch(20)

    with django_assert_num_queries(len(one)):
        _lines(NODES)
