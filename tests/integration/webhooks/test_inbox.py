"""The three endpoints: what comes in is verified, stored as it came and answered the same when it comes again."""

import json
import time

import pytest
from django.test import Client

from portal.sandbox.stripe_double.hooks import signed
from portal.webhooks.models import StripeEvent
from tests.factories.payouts import PATHS, SECRETS

pytestmark = pytest.mark.django_db


def event(**changes) -> dict[str, object]:
    """Return a snapshot event of the platform."""
    return {
        "id": "evt_1",
        "object": "event",
        "created": 1_800_000_000,
        "livemode": False,
        "type": "checkout.session.completed",
        "data": {"object": {"id": "cs_test_1", "object": "checkout.session"}},
        **changes,
    }


def thin(**changes) -> dict[str, object]:
    """Return a thin event about an account."""
    return {
        "id": "evt_2",
        "object": "v2.core.event",
        "created": "2026-11-02T12:00:00.000Z",
        "livemode": False,
        "type": "v2.core.account.updated",
        "related_object": {"id": "acct_1", "type": "v2.core.account", "url": "/v2/core/accounts/acct_1"},
        **changes,
    }


def post(body: dict[str, object] | bytes, *, to: str = "platform", secret: str = "", at: int = 0):
    """Send an event as Stripe does."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    header = signed(raw, secret or SECRETS[to], at=at or int(time.time()))
    return Client().post(PATHS[to], data=raw, content_type="application/json", headers={"stripe-signature": header})


def test_an_event_is_stored_as_it_came(shop):
    body = event()

    answer = post(body)

    row = StripeEvent.objects.get()
    assert (answer.status_code, answer.json()) == (200, {"received": True})
    assert (row.source, row.event_id, row.object_id, row.state) == ("platform", "evt_1", "cs_test_1", "pending")
    assert json.loads(bytes(row.body)) == body


def test_a_duplicate_is_answered_like_the_first(shop):
    assert [post(event()).status_code for _ in range(3)] == [200, 200, 200]

    assert StripeEvent.objects.count() == 1


def test_a_thin_event_names_its_object(shop):
    assert post(thin(), to="events").status_code == 200

    assert StripeEvent.objects.values_list("source", "object_id").get() == ("events", "acct_1")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"secret": "whsec_wrong"}, "signature_invalid"),
        ({"secret": SECRETS["connect"]}, "signature_invalid"),
        ({"at": int(time.time()) - 301}, "signature_invalid"),
    ],
    ids=["wrong secret", "secret of another endpoint", "too old"],
)
def test_what_is_not_signed_for_this_endpoint_is_refused(shop, sent, code):
    answer = post(event(), **sent)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert StripeEvent.objects.count() == 0


def test_a_body_that_was_changed_is_refused(shop):
    raw = json.dumps(event()).encode()
    header = signed(raw, SECRETS["platform"], at=int(time.time()))

    answer = Client().post(
        PATHS["platform"],
        data=raw.replace(b"evt_1", b"evt_9"),
        content_type="application/json",
        headers={"stripe-signature": header},
    )

    assert (answer.status_code, StripeEvent.objects.count()) == (400, 0)


def test_without_a_secret_nothing_gets_in(shop, settings):
    settings.STRIPE_WEBHOOK_SECRET = ""

    answer = post(event(), secret="guess")

    assert (answer.status_code, StripeEvent.objects.count()) == (400, 0)


@pytest.mark.parametrize(
    ("body", "to", "code"),
    [
        (event(account="acct_1"), "platform", "wrong_endpoint"),
        (event(), "connect", "wrong_endpoint"),
        (event(livemode=True), "platform", "wrong_mode"),
        (event(account="acct_1", livemode=True), "connect", "wrong_mode"),
        (thin(livemode=True), "events", "wrong_mode"),
    ],
)
def test_account_and_mode_must_fit_the_endpoint(shop, body, to, code):
    answer = post(body, to=to)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert StripeEvent.objects.count() == 0


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b"\xff\xfe", b'{"object": "event"}', b'{"object": "charge", "id": "x"}', b""],
)
def test_what_is_no_event_is_refused_without_a_trace(shop, body):
    if body == b"\xff\xfe":
        answer = Client().post(PATHS["platform"], data=body, content_type="application/json")
    else:
        answer = post(body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "signature_invalid")
    assert StripeEvent.objects.count() == 0


def test_more_than_a_megabyte_is_refused(shop):
    answer = post(event(padding="x" * 1_000_000))

    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "event_too_large")
    assert StripeEvent.objects.count() == 0


def test_only_post_is_served(shop):
    assert Client().get(PATHS["platform"]).status_code == 405
