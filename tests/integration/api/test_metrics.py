"""The portal's figures are for whoever has the token; without one, for this machine alone."""

import pytest
from django.test import Client

from portal.metering.services import hours
from tests.factories import metering as make
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import DeploymentFactory, NodeFactory

pytestmark = pytest.mark.django_db


def _lines(**request: object) -> dict[str, str]:
    response = Client().get("/metrics", **request)
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

    assert Client().get("/metrics", **request_).status_code == 401
