"""A saved card is charged when credit is low: once, never beyond the cap, never while one charge is in doubt."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.accounts.models import Organization
from portal.accounts.services import spending
from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import AutoTopUp, CustomerCard, LedgerTx, TopUp
from portal.billing.services import auto_settings, auto_topups, reconcile, topup_sweep, topups
from portal.billing.services.auto_settings import AutoTerms, TaxNeedsTheBuyer
from portal.core import clock
from portal.integrations import stripe
from portal.notifications.models import Message
from portal.notifications.rendering import render
from portal.webhooks.services import dispatch
from tests.factories.payouts import balance_of
from tests.integration.credit import saving
from tests.integration.credit.saving import ASKS_EVERY_TIME, DECLINES, LOST

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def begin(organization, now):
    return auto_topups.begin(organization_id=organization.pk, now=now)


def charge(organization, now):
    topup = begin(organization, now)
    assert topup is not None
    return auto_topups.charge(topup_id=topup.pk, now=now)


def webhook(shop, topup, now):
    """Let every waiting webhook come in and be handled."""
    shop.deliver_all()
    dispatch.handle_due(now=clock.now() + MINUTE)


def page(shop, topup, now):
    """Look at the purchase's page."""
    topups.fulfil(topup_id=topup.pk, now=now)


def sweeper(shop, topup, now):
    """Let the periodic task pass, when a silent worker counts as dead."""
    topup_sweep.sweep(now=now + 2 * stripe.SILENT_AFTER)


def test_low_credit_charges_the_card_once(shop, low, now):
    topup = charge(low, now)

    assert (topup.state, topup.amount_minor, topup.origin) == ("paid", 2000, "auto")
    assert saving.credit_minor(low) == 400 + 2000
    assert begin(low, now + MINUTE) is None
    (payment,) = saving.payments(shop, topup)
    assert (payment["amount"], payment["id"], topup.charge) == (2000, topup.payment_intent, payment["latest_charge"])
    assert topup.receipt_url.startswith("http")


@pytest.mark.parametrize("spent", [0, 499, 500])
def test_credit_at_the_threshold_is_enough(shop, now, spent):
    organization = saving.customer(shop, now=now)
    saving.turn_on(organization, now=now)
    if spent:
        saving.spend(organization, minor=spent, now=now, key="1")

    assert begin(organization, now) is None
    assert auto_topups.begin_due(now=now) == 0
    assert saving.autos(organization) == []


def test_the_sweeper_finds_low_credit_and_a_lost_enqueue(shop, low, now):
    assert auto_topups.begin_due(now=now) == 1
    (topup,) = saving.autos(low)
    assert topup.state == "created"

    sweeper(shop, topup, now)

    topup.refresh_from_db()
    assert (topup.state, saving.credit_minor(low)) == ("paid", 2400)


@pytest.mark.parametrize(
    "steps",
    [(webhook, page), (sweeper, webhook, webhook)],
    ids=lambda steps: "-".join(step.__name__ for step in steps),
)
@pytest.mark.parametrize("fault", ["reset", "500"])
def test_an_answer_that_is_lost_after_stripe_acted_is_one_payment(shop, low, now, fault, steps):
    shop.double.control("fail", path="/v1/payment_intents", kind=fault, when="after", count=3)
    topup = charge(low, now)

    shop.double.store.rows("UPDATE faults SET remaining = 0")
    for step in steps:
        step(shop, topup, now)

    topup.refresh_from_db()
    assert (topup.state, saving.credit_minor(low)) == ("paid", 2400)
    assert len(saving.payments(shop, topup)) == 1


@pytest.mark.parametrize("fault", ["reset", "409", "429"])
def test_an_answer_that_is_lost_before_stripe_acted_is_one_payment(shop, low, now, fault):
    shop.double.control("fail", path="/v1/payment_intents", kind=fault, when="before", count=3)
    topup = charge(low, now)
    assert topup.state in {"created", "unknown"}
    assert begin(low, now) is None
    shop.double.store.rows("UPDATE faults SET remaining = 0")

    sweeper(shop, topup, now)
    sweeper(shop, topup, now + timedelta(hours=1))

    topup.refresh_from_db()
    assert (topup.state, saving.credit_minor(low)) == ("paid", 2400)
    assert len(saving.payments(shop, topup)) == 1


def test_a_failure_that_stripe_repeats_is_given_up_when_its_list_stays_empty(shop, low, now):
    shop.double.control("fail", path="/v1/payment_intents", kind="500", when="before", count=3)
    topup = charge(low, now)
    assert topup.state == "unknown"
    shop.double.store.rows("UPDATE faults SET remaining = 0")

    for minutes in (10, 50, 90, 350):
        assert auto_topups.advance(topup_id=topup.pk, now=now + timedelta(minutes=minutes)).state == "unknown"
        assert begin(low, now + timedelta(minutes=minutes)) is None
    later = auto_topups.advance(topup_id=topup.pk, now=now + timedelta(hours=6))

    assert (later.state, saving.payments(shop, topup)) == ("failed", [])
    assert "nothing was charged" in later.state_reason
    assert AutoTopUp.objects.get().failures == 0
    assert begin(low, now + timedelta(hours=6)) is not None


def test_no_second_charge_begins_while_one_is_in_doubt(shop, low, now):
    shop.double.control("fail", path="/v1/payment_intents", kind="reset", when="after", count=100)
    shop.double.control("fail", method="GET", path="/v1/payment_intents", kind="500", when="before", count=100)
    topup = charge(low, now)
    assert topup.state == "unknown"

    for hours in range(1, 6):
        sweeper(shop, topup, now + timedelta(hours=hours))
        assert begin(low, now + timedelta(hours=hours)) is None
        assert auto_topups.begin_due(now=now + timedelta(hours=hours)) == 0

    topup.refresh_from_db()
    assert (topup.state, len(saving.autos(low)), len(shop.double.store.all("payment_intent"))) == ("unknown", 1, 2)


# LIT-Protocol/chipotle#447: keys by time let the monthly cap be passed
def test_the_months_cap_holds_and_is_told_once(shop, low, now):
    saving.turn_on(low, now=now, threshold=5000, amount=2000, cap=5000)
    charge(low, now)
    charge(low, now + MINUTE)

    assert [begin(low, now + timedelta(minutes=minutes)) for minutes in (2, 3)] == [None, None]

    assert saving.credit_minor(low) == 400 + 4000
    assert saving.told(low) == ["auto_topup_capped"]


def test_what_the_guard_refuses_is_told_once_and_tried_again_when_it_said(shop, low, now):
    saving.turn_on(low, now=now, threshold=5000, amount=9001)
    Organization.objects.update(created_at=now)
    bought = now + timedelta(hours=1)
    TopUp.objects.filter(organization=low).update(created_at=bought)
    first = now + timedelta(hours=2)

    assert [begin(low, first + minutes * MINUTE) for minutes in range(3)] == [None] * 3

    plan, free_at = AutoTopUp.objects.get(), bought + timedelta(days=1)
    assert (plan.is_on, plan.failures, plan.retry_at) == (True, 0, first + timedelta(days=1) - HOUR)
    assert plan.retry_at == free_at
    (message,) = Message.objects.filter(template="auto_topup_refused")
    text = render(message).text
    assert "did not let 90.01 USD be charged to your saved card: At most 100 USD" in text
    assert f"tried again by itself, at {free_at:%Y-%m-%d %H:%M} UTC at the latest" in text
    assert auto_topups.begin_due(now=free_at - MINUTE) == 0
    assert begin(low, free_at) is not None
    assert saving.told(low) == ["auto_topup_refused"]


def test_what_the_guard_will_not_let_pass_for_weeks_is_asked_each_day_and_told_once(shop, low, now):
    saving.turn_on(low, now=now, threshold=5000, amount=25_000, cap=30_000)
    Organization.objects.update(created_at=now)

    assert [begin(low, now + timedelta(days=days)) for days in range(3)] == [None] * 3

    assert AutoTopUp.objects.get().retry_at == now + timedelta(days=3)
    assert saving.told(low) == ["auto_topup_refused"]
    weeks = now + timedelta(weeks=2)
    assert f"{weeks:%Y-%m-%d %H:%M}" in render(Message.objects.get(template="auto_topup_refused")).subject


def test_the_cap_is_of_a_calendar_month_in_utc(shop, low, now):
    saving.turn_on(low, now=now, threshold=5000, amount=2000, cap=2000)
    last, first = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    charge(low, last)

    assert begin(low, last) is None
    assert begin(low, first) is not None


# nebius/token-factory-cookbook#27: the balance ran far below zero, then charges came as a surprise
def test_a_soft_refusal_pauses_longer_each_time_and_the_third_ends_it(shop, now):
    organization = saving.customer(shop, now=now)
    saving.change_bank(shop, organization, DECLINES)
    saving.turn_on(organization, now=now)
    saving.spend(organization, minor=600, now=now, key="1")

    at, tries = now, []
    for _ in range(3):
        topup = charge(organization, at)
        plan = AutoTopUp.objects.get()
        tries.append((topup.state, plan.failures, plan.is_on))
        if plan.retry_at is not None:
            assert begin(organization, plan.retry_at - timedelta(seconds=1)) is None
            at = plan.retry_at

    assert tries == [("failed", 1, True), ("failed", 2, True), ("failed", 3, False)]
    assert at - now == timedelta(hours=7)
    assert saving.credit_minor(organization) == 400
    assert saving.told(organization) == ["auto_topup_off"]
    assert AuditEvent.objects.filter(event="auto_topup.off").count() == 1
    assert begin(organization, now + timedelta(days=40)) is None


def test_a_lost_card_is_never_tried_again(shop, low, now):
    saving.change_bank(shop, low, LOST)

    topup = charge(low, now)

    assert (topup.state, AutoTopUp.objects.get().is_on) == ("failed", False)
    assert saving.told(low) == ["auto_topup_off"]


def test_a_card_that_stripe_does_not_have_any_more_ends_it_at_once(shop, low, now):
    saved = CustomerCard.objects.get(organization=low)
    stripe.payments().forget_card(key="elsewhere", card=saved.stripe_card)

    topup = charge(low, now)

    plan = AutoTopUp.objects.get()
    assert (topup.state, plan.is_on, plan.failures) == ("failed", False, 1)
    assert saving.told(low) == ["auto_topup_off"]


def test_a_bank_that_asks_for_the_owner_gets_a_page_and_no_second_charge(shop, now):
    organization = saving.customer(shop, now=now, card=ASKS_EVERY_TIME)
    saving.turn_on(organization, now=now)
    saving.spend(organization, minor=600, now=now, key="1")

    topup = charge(organization, now)
    topup = auto_topups.open_confirmation(topup_id=topup.pk, now=now)
    again = auto_topups.open_confirmation(topup_id=topup.pk, now=now)

    confirmation = TopUp.objects.get(pk=topup.confirmation_id)
    assert (topup.state, again.confirmation_id) == ("needs_action", confirmation.pk)
    assert (confirmation.state, confirmation.amount_minor, confirmation.saves_card) == ("open", 2000, True)
    (message,) = Message.objects.filter(template="auto_topup_confirm")
    assert message.context["url"] == confirmation.checkout_url
    assert begin(organization, now + timedelta(days=1)) is None

    saving.pay(shop, confirmation, card=ASKS_EVERY_TIME)
    topups.fulfil(topup_id=confirmation.pk, now=now)
    done = topups.fulfil(topup_id=topup.pk, now=now)

    assert (done.state, confirmation.public_id in done.state_reason) == ("failed", True)
    assert saving.credit_minor(organization) == 400 + 2000
    assert (AutoTopUp.objects.get().is_on, saving.told(organization)) == (True, ["auto_topup_confirm"])


def test_an_owner_who_does_not_confirm_turns_it_off(shop, now):
    organization = saving.customer(shop, now=now, card=ASKS_EVERY_TIME)
    saving.turn_on(organization, now=now)
    saving.spend(organization, minor=600, now=now, key="1")
    topup = charge(organization, now)
    sweeper(shop, topup, now)
    shop.double.control("clock/advance", seconds=90_000)

    topup_sweep.sweep(now=now + timedelta(hours=25))
    topup_sweep.sweep(now=now + timedelta(hours=26))

    topup.refresh_from_db()
    assert (topup.state, topup.state_reason) == ("failed", "its owner did not confirm in time")
    assert AutoTopUp.objects.get().is_on is False
    assert saving.told(organization) == ["auto_topup_confirm", "auto_topup_off"]
    assert saving.credit_minor(organization) == 400


def test_a_payment_that_succeeds_after_all_is_credited_once(shop, low, now):
    topup = charge(low, now)
    TopUp.objects.filter(pk=topup.pk).update(state="failed")
    balance = saving.credit_minor(low)

    for _ in range(2):
        webhook(shop, topup, now)

    topup.refresh_from_db()
    assert (topup.state, saving.credit_minor(low)) == ("paid", balance)


@pytest.mark.parametrize("why", ["suspended", "stopped", "off", "taxed"])
def test_nobody_is_charged_who_may_not_spend_or_said_no(shop, low, now, why, settings):
    if why == "taxed":
        settings.STRIPE_AUTOMATIC_TAX = True
        saved = CustomerCard.objects.get()
        terms = AutoTerms(500, 2000, 9000, saved.public_id)
        with pytest.raises(TaxNeedsTheBuyer):
            auto_settings.turn_on(
                organization=low, terms=terms, user=TopUp.objects.get().created_by, actor=SYSTEM_ACTOR, now=now
            )
    elif why == "suspended":
        type(low).objects.filter(pk=low.pk).update(state="suspended")
    elif why == "stopped":
        spending.set_stop(organization_id=low.pk, why="dispute", actor=SYSTEM_ACTOR, now=now)
    else:
        auto_settings.turn_off(organization=low, actor=SYSTEM_ACTOR, now=now)

    assert begin(low, now) is None
    assert auto_topups.begin_due(now=now) == 0
    assert saving.autos(low) == []


# openai/codex#46608: recharged more than configured, and the spend could not be traced
def test_a_recharge_is_exactly_what_was_set_and_names_its_purchase(shop, low, now):
    topup = charge(low, now)

    tx = LedgerTx.objects.get(kind="topup", source_id=topup.public_id)
    assert sum(part.amount for part in tx.transfers.all()) == 2000 * saving.CENT
    assert tx.idempotency_key == f"topup:{topup.payment_intent}"
    assert AuditEvent.objects.filter(event="topup.paid", subject=topup.public_id).count() == 1


def test_the_books_are_stripes_after_all_of_it(shop, low, now):
    charge(low, now)

    theirs = sum(one.available_minor + one.pending_minor for one in stripe.payments().balances())
    assert balance_of("stripe_balance") == theirs * saving.CENT
    assert [one for one in reconcile.differences(now=now) if one.code != "ledger_unknown_kind"] == []
