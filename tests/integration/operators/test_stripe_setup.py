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
    assert "24 things" in found()["permissions"].detail


# What the doctor calls a permission that is missing, and Stripe's own word for it.
_READS = {
    "balance": "balance",
    "balance_transaction": "balance_transaction_source",
    "checkout": "checkout_session",
    "payment_intent": "payment_intent",
    "payment_method": "payment_method",
    "charge": "charge",
    "dispute": "dispute",
    "radar": "radar",
    "transfer": "transfer",
    "event": "event",
    "webhook": "webhook",
    "event_destination": "event_destination",
    "account": "v2_account",
    "external_account": "external_account",
    "payout": "payout",
}
_WRITES = {
    "customer": "customer",
    "payment_method": "payment_method",
    "account_link": "account_link",
    "login_link": "login_link",
    "checkout": "checkout_session",
    "payment_intent": "payment_intent",
    "charge": "charge",
    "dispute": "dispute",
    "transfer": "transfer",
}


def permissions_missing(pool, settings, *, level: str, **given: str) -> dict[str, stripe_setup.Finding]:
    """Return what the doctor says of a key that has `level` of all but what every key needs."""
    settings.STRIPE_API_KEY = "rk_test_restricted_pool"
    stripe.forget_connections()
    least = {"connected_account": "read", "balance_settings": "read"}
    kept = dict.fromkeys(permissions.RESOURCES, level) | least | given
    pool.double.control("key", key="rk_test_restricted_pool", **kept)
    return {name: one for name, one in found().items() if name.startswith("permission_")}


@pytest.mark.parametrize(
    ("level", "missing"), [("read", {"write": _WRITES}), ("none", {"read": _READS, "write": _WRITES})]
)
def test_every_missing_permission_is_named_before_money_moves(pool, settings, level, missing):
    told = permissions_missing(pool, settings, level=level)

    words = {f"permission_{name}_{kind}": word for kind, names in missing.items() for name, word in names.items()}
    assert set(told) == set(words)
    for code, word in words.items():
        assert (told[code].status, f"'rak_{word}_" in told[code].cause) == ("fail", True), code
        assert "give it this permission" in told[code].fix
    assert pool.double.store.all("transfer") == []


def test_one_missing_permission_is_the_only_one_named(pool, settings):
    assert set(permissions_missing(pool, settings, level="write", charge="read")) == {"permission_charge_write"}


def test_a_balance_that_may_not_be_read_leaves_the_other_checks(pool, settings):
    permissions_missing(pool, settings, level="write", balance="none")

    told = found()
    assert {told["balance"].status, told["books"].status, told["permission_balance_read"].status} == {"fail"}
    assert {told["webhook_platform"].status, told["accounts_v2"].status} == {"ok"}
    assert "rak_balance_read" in told["balance"].cause


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
    # Who cannot ask at all is told so once, and nothing about Stripe's side is guessed.
    assert not {"webhook_endpoints", "webhook_platform", "permissions", "balance"} & set(told)


def test_a_shell_shows_columns_money_and_a_sum(pool, settings):
    settings.STRIPE_CONNECT_WEBHOOK_SECRET = ""
    pool.double.control("platform", payout_interval="daily", minimum_balance=1250)
    out = StringIO()

    with pytest.raises(SystemExit):
        call_command("stripe_doctor", stdout=out)

    lines = out.getvalue().splitlines()
    column = lines[0].index(" set") + 1
    fix = "make the endpoint http://testserver/webhooks/stripe/connect/ at Stripe"
    fix += ", set STRIPE_CONNECT_WEBHOOK_SECRET to its signing secret"
    assert lines[1:3] == [f"fail  {'stripe_connect_webhook_secret':{column - 7}} not set", f"{'':{column}}fix: {fix}"]
    kept = "0.00 USD owed to providers and customers; Stripe's payouts to your own bank leave 12.50 USD behind"
    assert any(line.endswith(kept) and line.index(kept) == column for line in lines)
    assert lines[-1].startswith("1 fail, 0 warn, ")


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
