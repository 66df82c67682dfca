"""`manage.py payouts` and `manage.py stripe_doctor`, as scripts use them."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from portal.billing.services import topups
from portal.core import clock
from portal.payouts.models import Payout
from portal.payouts.services.doctor import examine
from tests.factories.accounts import UserFactory

pytestmark = pytest.mark.django_db


def payouts(*arguments: str) -> list[dict[str, object]]:
    """Run the command and read its JSON."""
    out = StringIO()
    call_command("payouts", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.fixture
def ready(shop):
    """A provider who can be paid 25.50, money at Stripe, and an operator."""
    provider = shop.provider(earned_minor=2550, now=clock.now())
    shop.fund(10_000)
    UserFactory(email="ops@example.com", is_operator=True)
    return provider


def test_from_draft_to_transfer(shop, ready):
    drafted = payouts("draft")
    approved = payouts("approve", "--all", "--by", "ops@example.com")
    sent = payouts("run")

    assert [(one["state"], one["amount_minor"]) for one in drafted + approved + sent] == [
        ("reserved", 2550),
        ("approved", 2550),
        ("transferred", 2550),
    ]
    assert sent[0]["transfer"] == shop.transfers(Payout.objects.get())[0]["id"]
    assert payouts("show") == []
    assert payouts("show", sent[0]["payout"])[0]["state"] == "transferred"


def test_dry_runs_do_nothing(shop, ready):
    assert [(one["amount_minor"], one["would"]) for one in payouts("draft", "--dry-run")] == [(2550, "reserve")]
    assert Payout.objects.count() == 0

    payouts("draft")
    assert payouts("approve", "--all", "--by", "ops@example.com", "--dry-run")[0]["would"] == "approve"
    payouts("approve", "--all", "--by", "ops@example.com")
    assert payouts("run", "--dry-run")[0]["would"] == "send"

    assert (Payout.objects.get().state, shop.transfers(Payout.objects.get())) == ("approved", [])


def test_a_run_is_checked_again_and_approved_by_its_hash(shop, ready):
    (drafted,) = payouts("draft")
    shop.double.control("drain", leave=2549)
    (short,) = payouts("check", "--run", drafted["run"])
    with pytest.raises(CommandError, match="payout_run_not_clean: the check found: cover"):
        payouts("approve", drafted["payout"], "--by", "ops@example.com")
    shop.fund(1)
    (clean,) = payouts("check", "--run", drafted["run"])
    with pytest.raises(CommandError, match="payout_run_changed"):
        payouts("approve", "--run", drafted["run"], "--by", "ops@example.com")

    (approved,) = payouts("approve", "--run", drafted["run"], "--hash", clean["hash"], "--by", "ops@example.com")

    assert (short["check"], clean["check"], approved["state"]) == ("the check found: cover", "clean", "approved")
    assert "2549 minor units available at Stripe, 2550 needed. top up the balance" in short["found"]


def test_a_check_needs_its_run():
    with pytest.raises(CommandError, match="--run"):
        payouts("check")
    with pytest.raises(CommandError, match="not_found"):
        payouts("check", "--run", "run_none")


def test_the_skipped_are_named(shop):
    provider = shop.provider(earned_minor=50, now=clock.now())

    assert payouts("draft") == [
        {
            "provider": provider.public_id,
            "skipped": "below_minimum",
            "reason": "The available balance is below the smallest payout. 50 of 100",
            "available_nano": 500_000_000,
        }
    ]


def test_an_approval_needs_an_operator(shop, ready):
    payouts("draft")
    UserFactory(email="someone@example.com")

    for email in ("nobody@example.com", "someone@example.com"):
        with pytest.raises(CommandError):
            payouts("approve", "--all", "--by", email)
    with pytest.raises(CommandError, match="name what is approved"):
        payouts("approve", "--by", "ops@example.com")

    assert Payout.objects.get().state == "reserved"


def test_lines_for_people(shop, ready):
    out = StringIO()

    call_command("payouts", "draft", stdout=out)

    assert "state=reserved  amount_minor=2550  currency=usd" in out.getvalue()


def doctor() -> tuple[int, dict[str, str]]:
    """Run the doctor; return its exit status and each check's status."""
    out = StringIO()
    status = 0
    try:
        call_command("stripe_doctor", "--json", stdout=out)
    except SystemExit as ended:
        status = int(ended.code)
    return status, {one["id"]: one["status"] for one in json.loads(out.getvalue())["checks"]}


def test_the_doctor_finds_a_sound_setup(shop, ready):
    topups.fulfil(topup_id=shop.buy(amount=5000, now=clock.now()).pk, now=clock.now())
    shop.double.control("drain", leave=2550)

    status, checks = doctor()

    assert (status, set(checks.values())) == (0, {"ok"})
    assert {"api", "retained_balance", "accounts_v2", "balance", "books"} <= set(checks)


def test_the_doctor_names_money_that_nobody_booked(shop, ready):
    topups.fulfil(topup_id=shop.buy(amount=5000, now=clock.now()).pk, now=clock.now())

    findings = {one.id: one for one in examine(now=clock.now())}

    assert findings["books"].status == "warn"
    assert "topup tu_" in findings["books"].fix


def test_the_doctor_names_what_is_missing(shop, ready, settings):
    settings.STRIPE_EVENTS_SECRET = ""
    settings.STRIPE_CONNECT_WEBHOOK_SECRET = settings.STRIPE_WEBHOOK_SECRET
    shop.double.control("platform", payout_interval="daily")

    status, checks = doctor()

    assert status == 1
    assert (checks["stripe_events_secret"], checks["webhook_secrets"], checks["retained_balance"]) == (
        "fail",
        "fail",
        "warn",
    )


def test_the_doctor_works_without_a_key(settings):
    settings.STRIPE_API_KEY = ""

    status, checks = doctor()

    assert (status, checks["api"]) == (1, "fail")
