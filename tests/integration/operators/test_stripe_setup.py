"""The doctor of Stripe finds what is not set up, says which permission is missing, and never tells a secret."""

import json
import logging
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import freeze
from portal.core import clock
from portal.integrations import stripe
from portal.operators import stripe_setup
from portal.payouts.services import stripe_books
from portal.sandbox.stripe_double import permissions
from portal.webhooks.models import CatchUpCursor, StripeEvent

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool(shop, settings):
    """A pool whose endpoints stand at Stripe as docs/stripe.md says."""
    settings.PUBLIC_URL = "http://testserver"
    stripe_books.sync(now=clock.now())
    return shop


def found(**wanted: str) -> dict[str, stripe_setup.Finding]:
    return {one.id: one for one in stripe_setup.examine(now=clock.now())}


def wrong() -> set[str]:
    return {one.id for one in found().values() if one.status != "ok"}


def test_a_sound_setup_is_all_well(pool):
    assert wrong() == set()
    assert "18 things" in found()["permissions"].detail


@pytest.mark.parametrize(
    ("resource", "level", "code"),
    [
        ("transfer", "read", "permission_transfer_write"),
        ("transfer", "none", "permission_transfer_read"),
        ("charge", "read", "permission_charge_write"),
        ("dispute", "none", "permission_dispute_read"),
        ("checkout_session", "read", "permission_checkout_write"),
        ("event", "none", "permission_event_read"),
        ("webhook", "none", "permission_webhook_read"),
    ],
)
def test_a_missing_permission_is_named_before_money_moves(pool, settings, resource, level, code):
    settings.STRIPE_API_KEY = "rk_test_restricted_pool"
    stripe.forget_connections()
    everything = dict.fromkeys(permissions.RESOURCES, "write")
    pool.double.control("key", key="rk_test_restricted_pool", **(everything | {resource: level}))

    finding = found()[code]

    assert finding.status == "fail"
    assert f"rak_{resource}" in finding.cause
    assert "give it this permission" in finding.fix
    assert pool.double.store.all("transfer") == []


def test_probing_changes_nothing_at_stripe(pool):
    kinds = ("transfer", "refund", "payment_intent", "checkout.session", "customer", "dispute")
    before = {kind: len(pool.double.store.all(kind)) for kind in kinds}

    found()

    assert {kind: len(pool.double.store.all(kind)) for kind in kinds} == before


@pytest.mark.parametrize(
    ("endpoint", "change", "code"),
    [
        ("platform", {"events": "transfer.reversed"}, "webhook_platform"),
        ("connect", {"status": "disabled"}, "webhook_connect"),
        ("platform", {"api_version": "2020-08-27"}, "webhook_platform_version"),
        ("events", {"status": "disabled"}, "event_destination"),
    ],
)
def test_endpoints_that_do_not_tell_all_are_found(pool, endpoint, change, code):
    pool.double.control("endpoint", endpoint=endpoint, **change)

    finding = found()[code]

    assert finding.status in {"warn", "fail"}
    assert finding.fix


def test_an_event_that_waits_and_one_that_failed_are_told(pool):
    long_ago = clock.now() - timedelta(hours=2)
    for number, state in enumerate(("pending", "failed")):
        StripeEvent.objects.create(
            source="platform", event_id=f"evt_{number}", type="transfer.reversed", is_live=False, body=b"{}",
            received_at=long_ago, next_try_at=long_ago, state=state, error="unknown_reference: no payout",
        )  # fmt: skip

    assert {"inbox", "inbox_failed"} <= wrong()
    assert found()["inbox"].cause == "unknown_reference: no payout"


def test_a_clock_that_is_wrong_is_told(pool):
    now = clock.now()
    for number in range(3):
        made = int((now + timedelta(seconds=90)).timestamp())
        StripeEvent.objects.create(
            source="platform", event_id=f"evt_{number}", type="x", is_live=False, state="ignored",
            body=json.dumps({"created": made}).encode(), received_at=now, next_try_at=now,
        )  # fmt: skip

    assert "NTP" in found()["clock"].fix


def test_a_gap_in_the_events_and_a_recovery_are_told(pool):
    now = clock.now()
    CatchUpCursor.objects.create(source="platform", read_until=now, has_gap=True, gap_until=now)
    freeze.begin(known_until=now, actor=SYSTEM_ACTOR, now=now)

    assert {"catch_up_platform", "recovery"} <= wrong()


def test_countries_beyond_reach_are_named(pool, settings):
    settings.PAYOUT_COUNTRIES = ["DE", "BR"]

    assert "BR" in found()["countries"].detail


def test_a_secret_key_in_live_mode_is_worth_a_word(pool, settings):
    settings.STRIPE_API_KEY = "sk_live_" + "x" * 20
    settings.STRIPE_API_BASE = "https://api.stripe.invalid"

    told = {one.id: one for one in stripe_setup.examine(now=clock.now())}

    assert told["restricted_key"].status == "warn"
    assert told["api"].status == "fail"


def test_no_secret_is_ever_told(pool, settings, caplog, client, world):
    marker = "MARKERthatNobodyMaySee"
    settings.STRIPE_API_KEY = f"rk_test_{marker}key"
    settings.STRIPE_WEBHOOK_SECRET = f"whsec_{marker}1"
    settings.STRIPE_CONNECT_WEBHOOK_SECRET = f"whsec_{marker}2"
    settings.STRIPE_EVENTS_SECRET = f"whsec_{marker}3"
    settings.RECEIPT_SIGNING_KEY = f"{marker}"
    stripe.forget_connections()
    pool.double.control("key", key=settings.STRIPE_API_KEY, balance="read")
    pool.double.control("fail", count=2, kind="500")
    told = StringIO()

    with caplog.at_level(logging.DEBUG), pytest.raises(SystemExit):
        call_command("stripe_doctor", stdout=told)
    page = world.client(world.operator).get("/operator/stripe/").content.decode()

    assert "fail" in told.getvalue()
    for text in (told.getvalue(), caplog.text, page):
        assert marker not in text


def test_the_page_shows_what_is_wrong_first(pool, world):
    pool.double.control("endpoint", endpoint="connect", status="disabled")

    page = world.client(world.operator).get("/operator/stripe/").content.decode()

    assert "1 of" in page
    assert page.index("webhook_connect") < page.index("webhook_platform")


def test_the_page_is_for_operators_alone(pool, world):
    assert world.client(world.customer.owner).get("/operator/stripe/").status_code in {302, 403, 404}
