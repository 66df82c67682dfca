"""Buying credit: whoever comes first, whatever gets lost, the ledger is the same."""

from datetime import timedelta

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.errors import KeyReused
from portal.billing.models import LedgerTx, StripeCustomer, TopUp
from portal.billing.services import ledger, templates, topup_sweep, topups
from portal.core import clock
from portal.core.errors import InvalidValue
from portal.integrations.stripe_errors import PaymentOutcomeUnknown
from portal.webhooks.services import dispatch
from tests.factories.payouts import balance_of, open_shop

pytestmark = pytest.mark.django_db

PAID = 50_000_000_000
FEE = 1_750_000_000


def books(topup: TopUp) -> tuple[int, int, int, int]:
    """Return the customer's credit, the fees, the balance at Stripe and how often a purchase was booked."""
    owner = topup.organization.public_id
    booked = LedgerTx.objects.filter(kind="topup").count()
    return balance_of("customer_credit", owner), balance_of("stripe_fees"), balance_of("stripe_balance"), booked


ONCE = (PAID, FEE, PAID - FEE, 1)


def webhook(shop, topup, now):
    """Let every waiting webhook come in and be handled."""
    shop.deliver_all()
    handle_due()


def handle_due(**later):
    """Handle what is due, on the inbox's own clock: the view stamps each event."""
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1, **later))


def page(shop, topup, now):
    """Come back from the payment page."""
    topups.fulfil(topup_id=topup.pk, now=now)


def sweeper(shop, topup, now):
    """Let the periodic task pass."""
    topup_sweep.sweep(now=now + timedelta(minutes=2))


@pytest.mark.parametrize(
    "steps",
    [
        (webhook,),
        (page,),
        (sweeper,),
        (page, webhook),
        (webhook, page),
        (webhook, sweeper, page),
        (page, page, webhook, webhook, sweeper),
    ],
    ids=lambda steps: "-".join(step.__name__ for step in steps),
)
def test_every_order_of_arrival_gives_the_same_books(shop, now, steps):
    topup = shop.buy(amount=5000, now=now)

    for step in steps:
        step(shop, topup, now)

    topup.refresh_from_db()
    assert (topup.state, topup.fee_minor) == ("paid", 175)
    assert books(topup) == ONCE


@pytest.mark.parametrize("mischief", ["duplicate", "reorder", "drop"])
def test_no_mischief_of_the_network_changes_the_books(shop, now, mischief):
    shop.double.control("webhooks", kind=mischief, count=50)
    topup = shop.buy(amount=5000, now=now)

    deliveries = shop.double.pending()
    for delivery in reversed(deliveries) if mischief == "reorder" else deliveries:
        assert shop.deliver(delivery) == 200
    handle_due()
    sweeper(shop, topup, now)

    topup.refresh_from_db()
    assert (topup.state, books(topup)) == ("paid", ONCE)


def test_an_event_before_the_row_knows_its_session_waits(shop, now):
    topup = shop.buy(amount=5000, now=now)
    session = topup.checkout_session
    TopUp.objects.filter(pk=topup.pk).update(checkout_session="")
    webhook(shop, topup, now)
    assert books(topup)[3] == 0

    TopUp.objects.filter(pk=topup.pk).update(checkout_session=session)
    handle_due(hours=2)

    assert books(topup) == ONCE


def test_the_same_client_key_is_the_same_purchase(shop, now):
    organization, user = shop.customer()

    first = shop.start(organization, user, amount=5000, now=now)
    second = shop.start(organization, user, amount=5000, now=now)

    assert (first.pk, first.checkout_url) == (second.pk, second.checkout_url)
    assert len(shop.double.store.all("checkout.session")) == 1
    with pytest.raises(KeyReused):
        shop.start(organization, user, amount=6000, now=now)


def test_a_lost_answer_of_checkout_is_found_by_the_same_key(shop, now):
    organization, user = shop.customer()
    shop.double.control("fail", path="/v1/checkout/sessions", kind="reset", when="after", count=3)
    with pytest.raises(PaymentOutcomeUnknown):
        shop.start(organization, user, amount=5000, now=now)
    assert TopUp.objects.get().state == "created"

    topup = shop.start(organization, user, amount=5000, now=now)

    assert [one["id"] for one in shop.double.store.all("checkout.session")] == [topup.checkout_session]
    assert (topup.state, TopUp.objects.count()) == ("open", 1)


def test_an_organization_is_one_customer_whatever_it_is_called_later(shop, now):
    organization, user = shop.customer()
    shop.double.control("fail", path="/v1/customers", kind="reset", when="after", count=3)
    with pytest.raises(PaymentOutcomeUnknown):
        shop.start(organization, user, amount=5000, now=now, key="1")
    organization.name = "Renamed"
    organization.save()

    shop.start(organization, user, amount=5000, now=now, key="2")

    assert [one["id"] for one in shop.double.store.all("customer")] == [StripeCustomer.objects.get().stripe_customer]


@pytest.mark.parametrize(
    "change",
    [{"amount_total": 4999}, {"currency": "eur"}, {"customer": "cus_other"}, {"client_reference_id": "topup_other"}],
    ids=lambda change: next(iter(change)),
)
def test_a_session_that_is_not_what_we_asked_for_is_not_credited(shop, now, change):
    topup = shop.buy(amount=5000, now=now)
    store = shop.double.store
    store.put("checkout.session", {**store.find(topup.checkout_session), **change})

    with pytest.raises(topups.TopUpMismatch):
        topups.fulfil(topup_id=topup.pk, now=now)

    topup.refresh_from_db()
    assert (topup.state, books(topup)) == ("failed", (0, 0, 0, 0))
    assert topup.state_reason.startswith("mismatch in ")


def test_a_live_session_in_a_test_pool_is_not_credited(shop, now):
    topup = shop.buy(amount=5000, now=now)
    store = shop.double.store
    store.put("checkout.session", {**store.find(topup.checkout_session), "livemode": True})

    with pytest.raises(topups.TopUpMismatch):
        topups.fulfil(topup_id=topup.pk, now=now)

    assert books(topup) == (0, 0, 0, 0)


def test_a_declined_card_leaves_the_page_open(shop, now):
    organization, user = shop.customer()
    topup = shop.start(organization, user, amount=5000, now=now)
    shop.post_page(topup.checkout_url, "decline")
    assert topups.fulfil(topup_id=topup.pk, now=now).state == "open"

    shop.post_page(topup.checkout_url, "pay")

    assert (topups.fulfil(topup_id=topup.pk, now=now).state, books(topup)) == ("paid", ONCE)


def test_a_bank_debit_is_credited_when_it_arrives(shop, now):
    organization, user = shop.customer()
    topup = shop.start(organization, user, amount=5000, now=now)
    shop.post_page(topup.checkout_url, "bank")
    webhook(shop, topup, now)
    topup.refresh_from_db()
    assert (topup.state, books(topup)) == ("processing", (0, 0, 0, 0))

    shop.double.control("settle", session=topup.checkout_session, is_good=True)
    webhook(shop, topup, now + timedelta(days=3))

    topup.refresh_from_db()
    assert (topup.state, books(topup)) == ("paid", ONCE)


def test_a_bank_debit_that_fails_is_not_credited(shop, now):
    organization, user = shop.customer()
    topup = shop.start(organization, user, amount=5000, now=now)
    shop.post_page(topup.checkout_url, "bank")
    shop.double.control("settle", session=topup.checkout_session, is_good=False)

    webhook(shop, topup, now)

    topup.refresh_from_db()
    assert (topup.state, topup.state_reason, books(topup)[0]) == ("failed", "debit_not_authorized", 0)


def test_a_page_nobody_used_expires(shop, now):
    organization, user = shop.customer()
    topup = shop.start(organization, user, amount=5000, now=now)
    shop.double.control("clock/advance", seconds=86_401)

    assert topups.fulfil(topup_id=topup.pk, now=now).state == "expired"


def test_a_purchase_whose_page_was_never_made_is_given_up_after_a_day(shop, now):
    organization, user = shop.customer()
    shop.double.control("fail", path="/v1/checkout/sessions", kind="reset", count=3)
    with pytest.raises(PaymentOutcomeUnknown):
        shop.start(organization, user, amount=5000, now=now)

    topup_sweep.sweep(now=now + timedelta(hours=23))
    assert TopUp.objects.get().state == "created"
    topup_sweep.sweep(now=now + timedelta(hours=25))

    assert TopUp.objects.get().state == "expired"


def test_open_debt_is_paid_first(shop, now):
    topup = shop.buy(amount=5000, now=now)
    owner = topup.organization.public_id
    ledger.post(
        kind="dispute_out",
        key="dispute:1",
        source_type="dispute",
        source_id="1",
        transfers=templates.dispute_out(organization=owner, amount=20_000_000_000, free=0, currency="usd"),
        actor=SYSTEM_ACTOR,
        now=now,
    )

    topups.fulfil(topup_id=topup.pk, now=now)

    assert balance_of("customer_receivable", owner) == 0
    assert balance_of("customer_credit", owner) == 30_000_000_000


@pytest.mark.parametrize("amount", [0, -1, 499, 1_000_001])
def test_amounts_out_of_bounds_are_refused(shop, now, amount):
    organization, user = shop.customer()

    with pytest.raises(InvalidValue):
        shop.start(organization, user, amount=amount, now=now)

    assert TopUp.objects.count() == 0


@pytest.mark.parametrize(("currency", "minor", "nano"), [("jpy", 5000, 5000 * 10**9), ("kwd", 5000, 5 * 10**9)])
def test_yen_and_dinars_are_credited_exactly(now, currency, minor, nano):
    with open_shop(currency=currency) as shop:
        topup = shop.buy(amount=minor, now=now)

        paid = topups.fulfil(topup_id=topup.pk, now=now)

        assert (paid.state, paid.currency, paid.amount_minor) == ("paid", currency, minor)
        assert balance_of("customer_credit", topup.organization.public_id, currency=currency) == nano
