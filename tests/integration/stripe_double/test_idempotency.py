"""The stand-in's idempotency is Stripe's: stored answers, stored errors, mismatches, keys in use, v2's difference."""

from collections.abc import Iterator

import httpx
import pytest

from portal.sandbox.stripe_double.keys import fingerprint
from portal.sandbox.stripe_double.server import StripeDouble
from tests.factories.payouts import running_double

HEADERS = {"authorization": "Bearer sk_test_x", "stripe-version": "2026-05-27.dahlia"}
CUSTOMER = {"name": "Acme"}


@pytest.fixture
def double() -> Iterator[StripeDouble]:
    """A running stand-in."""
    with running_double() as running:
        yield running


def post(double, path, *, key="key-1", data=None, json=None) -> httpx.Response:
    """Send a write under a key."""
    return httpx.post(
        double.url + path, data=data, json=json, headers=HEADERS | {"idempotency-key": key}, trust_env=False
    )


def test_the_same_key_gives_the_first_answer_again(double):
    first = post(double, "/v1/customers", data=CUSTOMER)
    second = post(double, "/v1/customers", data=CUSTOMER)

    assert second.json() == first.json()
    assert (first.headers.get("idempotent-replayed"), second.headers["idempotent-replayed"]) == (None, "true")
    assert len(double.store.all("customer")) == 1


def test_other_parameters_under_the_same_key_are_refused(double):
    post(double, "/v1/customers", data=CUSTOMER)

    other = post(double, "/v1/customers", data={"name": "Other"})

    assert (other.status_code, other.json()["error"]["type"]) == (400, "idempotency_error")
    assert len(double.store.all("customer")) == 1


def test_a_refusal_is_stored_too(double):
    data = {"amount": "5", "currency": "usd", "destination": "acct_nobody"}
    first = post(double, "/v1/transfers", data=data)

    second = post(double, "/v1/transfers", data=data)

    assert (first.status_code, second.status_code) == (400, 400)
    assert second.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_500_is_stored_too(double, when):
    double.control("fail", path="/v1/customers", kind="500", when=when)

    answers = [post(double, "/v1/customers", data=CUSTOMER).status_code for _ in range(2)]

    assert answers == [500, 500]
    assert len(double.store.all("customer")) == (1 if when == "after" else 0)


@pytest.mark.parametrize("kind", ["429", "409"])
def test_what_never_began_is_not_stored(double, kind):
    double.control("fail", path="/v1/customers", kind=kind)

    answers = [post(double, "/v1/customers", data=CUSTOMER).status_code for _ in range(2)]

    assert answers == [int(kind), 200]


@pytest.mark.parametrize("kind", ["429", "409"])
def test_who_is_turned_away_after_the_act_finds_it_done(double, kind):
    double.control("fail", path="/v1/customers", kind=kind, when="after")

    first, second = [post(double, "/v1/customers", data=CUSTOMER) for _ in range(2)]

    assert (first.status_code, second.status_code) == (int(kind), 200)
    assert second.headers["idempotent-replayed"] == "true"
    assert len(double.store.all("customer")) == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["500", "429", "409"])
def test_an_answer_that_is_given_again_can_fail_too(double, kind, when):
    made = post(double, "/v1/customers", data=CUSTOMER)
    double.control("fail", path="/v1/customers", kind=kind, when=when)

    failed, again = [post(double, "/v1/customers", data=CUSTOMER) for _ in range(2)]

    assert (failed.status_code, again.json()) == (int(kind), made.json())
    assert len(double.store.all("customer")) == 1


def test_a_refused_parameter_is_not_stored(double):
    wrong = post(double, "/v1/customers", data={"nmae": "Acme"})
    right = post(double, "/v1/customers", data=CUSTOMER)

    assert (wrong.status_code, right.status_code) == (400, 200)
    assert len(double.engine.violations) == 1
    double.engine.violations.clear()


def test_a_lost_answer_is_given_again(double):
    double.control("fail", path="/v1/customers", kind="reset", when="after")
    with pytest.raises(httpx.TransportError):
        post(double, "/v1/customers", data=CUSTOMER)

    again = post(double, "/v1/customers", data=CUSTOMER)

    assert again.headers["idempotent-replayed"] == "true"
    assert [one["id"] for one in double.store.all("customer")] == [again.json()["id"]]


def test_a_key_is_forgotten_after_a_day(double):
    first = post(double, "/v1/customers", data=CUSTOMER).json()["id"]
    double.control("clock/advance", seconds=86_400)

    second = post(double, "/v1/customers", data=CUSTOMER).json()["id"]

    assert first != second


def test_a_key_in_use_answers_409(double):
    double.engine._keys.begin(account="", key="key-1", request=fingerprint("POST", "/v1/customers", CUSTOMER))

    busy = post(double, "/v1/customers", data=CUSTOMER)

    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "idempotency_key_in_use")
    assert double.store.all("customer") == []


def test_v2_gives_a_success_again_and_tries_a_failure_again(double):
    double.control("platform", platform_unregistered="1")
    body = {"identity": {"country": "DE"}}
    refused = post(double, "/v2/core/accounts", json=body)
    double.control("platform", platform_unregistered="")

    made = post(double, "/v2/core/accounts", json=body)
    again = post(double, "/v2/core/accounts", json=body)

    assert (refused.status_code, made.status_code) == (400, 200)
    assert again.json()["id"] == made.json()["id"]
    assert len(double.store.all("v2.core.account")) == 1
