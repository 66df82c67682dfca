"""A request is explained to its customer, and to a provider as far as it was his; records are exported whole."""

import csv
import io
import json
from datetime import timedelta

import pytest

from portal.billing.services import posting
from portal.core import ids
from tests.factories import metering as make
from tests.factories.accounts import ApiKeyFactory
from tests.factories.billing import Market, ServingNodeFactory

pytestmark = pytest.mark.django_db

SECRET = "their-own-id-4711"


@pytest.fixture
def market(world) -> Market:
    return Market(customer=world.customer.organization, node=ServingNodeFactory(provider=world.provider))


def _text(response) -> str:
    return b"".join(response.streaming_content).decode()


def test_the_customer_sees_all_attempts_and_how_the_cost_comes_about(world, market):
    request_id = ids.uuid7()
    free = {"charge_nano": 0, "provider_nano": 0, "platform_nano": 0}
    other = make.usage_record(
        request_id=request_id, attempt=1, organization_id=world.customer.organization.pk, outcome="node_timeout", **free
    )
    market.serve(request_id=request_id, attempt=2, client_request_id=SECRET)

    page = world.client(world.customer.reader).get(f"/customer/requests/{other.request_id}/").content.decode()

    assert "Attempt 1" in page
    assert "Attempt 2" in page
    assert "Node timed out" in page
    assert SECRET in page
    assert "Price version 1" in page
    assert "prompt tokens" in page


def test_a_provider_sees_his_attempts_and_nothing_of_customer_or_other_nodes(world, market):
    request_id = ids.uuid7()
    free = {"charge_nano": 0, "provider_nano": 0, "platform_nano": 0}
    make.usage_record(request_id=request_id, attempt=1, provider_id=999, outcome="node_fault", **free)
    row = market.serve(request_id=request_id, attempt=2, client_request_id=SECRET, routing={"against": {"node": "n"}})
    posting.post_all(now=row.closed_at)

    page = world.client(world.supplier.reader).get(f"/provider/requests/{request_id}/").content.decode()

    assert "Attempt 2" in page
    assert "Attempt 1" not in page
    assert market.node.public_id in page
    for secret in (SECRET, world.customer.organization.public_id, world.customer.organization.name):
        assert secret not in page


def test_records_are_exported_as_csv_and_json_with_full_precision(world, market):
    key = ApiKeyFactory(organization=world.customer.organization, name="=evil()")
    row = market.serve(api_key_id=key.pk, charge_nano=1_234_567)
    day = row.closed_at.date().isoformat()
    address = f"/customer/requests.%s?first={day}&last={day}"

    (cells,) = csv.DictReader(io.StringIO(_text(world.client(world.customer.reader).get(address % "csv"))))
    (record,) = json.loads(_text(world.client(world.customer.reader).get(address % "json")))

    assert cells["request_id"] == record["request_id"] == str(row.request_id)
    assert cells["cost_usd"] == record["cost_usd"] == "0.001234567"
    assert (cells["key"], record["key"]) == ("'=evil()", "=evil()")
    assert (cells["prompt_tokens"], record["prompt_tokens"]) == ("1000", 1000)
    assert (cells["error_code"], record["error_code"]) == ("", None)


def test_a_providers_export_names_no_customer(world, market):
    row = market.serve(client_request_id=SECRET)
    day = row.closed_at.date().isoformat()

    text = _text(world.client(world.supplier.reader).get(f"/provider/requests.json?first={day}&last={day}"))

    (record,) = json.loads(text)
    assert record["node"] == market.node.name
    assert SECRET not in text
    assert not {"key", "client_request_id", "organization"} & set(record)


def test_an_export_of_nothing_is_an_empty_list(world):
    assert json.loads(_text(world.client(world.customer.reader).get("/customer/requests.json"))) == []


@pytest.mark.parametrize("query", ["first=2026-01-01&last=2026-12-01", "first=2026-12-02&last=2026-12-01", "first=x"])
def test_days_that_cannot_be_exported_are_refused(world, query):
    response = world.client(world.customer.reader).get(f"/customer/requests.csv?{query}")

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_value"


def test_only_the_days_asked_for_are_exported(world, market):
    row = market.serve()
    before = (row.closed_at - timedelta(days=1)).date().isoformat()

    text = _text(world.client(world.customer.reader).get(f"/customer/requests.json?first={before}&last={before}"))

    assert json.loads(text) == []


def test_a_strangers_request_does_not_exist(world, market):
    row = make.usage_record(organization_id=999_999, provider_id=999_999)

    assert world.client(world.customer.reader).get(f"/customer/requests/{row.request_id}/").status_code == 404
    assert world.client(world.supplier.reader).get(f"/provider/requests/{row.request_id}/").status_code == 404
