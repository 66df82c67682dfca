"""The Credit pages of customer and operator: what they show, who may act, and that refusals change nothing."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from portal.accounts.models import Organization
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import AutoTopUp, BankTransfer, CreditAlert, CustomerCard, Postpaid, PromoGrant, TopUp
from portal.billing.services import auto_topups, grants, topups
from portal.billing.services.grants import Gift
from tests.factories.billing import buy
from tests.factories.credit import CustomerCardFactory
from tests.factories.payouts import TopUpFactory, balance_of
from tests.integration.credit import saving

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 2, 15, 0, tzinfo=UTC)
EUROS = 1_000_000_000


@pytest.fixture(autouse=True)
def at_noon():
    """Pages read the clock; it stands still."""
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def credit(world):
    """The customer has 20 paid, 7 promotional that end in ten days, and a saved card."""
    organization = world.customer.organization
    buy(organization, amount=20 * EUROS)
    gift = Gift(amount_nano=7 * EUROS, expires_at=NOW + timedelta(days=10), note="welcome")
    grants.give(organization=organization, gift=gift, key="welcome", actor=SYSTEM_ACTOR, now=NOW)
    CustomerCardFactory(organization=organization)
    return organization


def test_the_page_shows_balance_runway_cards_gifts_and_documents(world, credit, django_assert_max_num_queries):
    TopUpFactory(
        organization=credit, invoice_url="https://stripe.example/i/1", receipt_url="https://stripe.example/r/1"
    )
    browser = world.client(world.customer.reader)

    with django_assert_max_num_queries(30):
        page = browser.get("/customer/credit/").content.decode()

    assert "$27.00" in page
    assert "$20.00 paid and $7.00 promotional" in page
    assert "no spend in the last 7 days" in page
    assert "Visa ending in 4242" in page
    assert "2026-11-12 15:00" in page
    assert 'href="https://stripe.example/i/1"' in page
    assert 'href="https://stripe.example/r/1"' in page
    assert "Turn on" not in page


AUTO = {"threshold": "5", "amount": "25.00", "monthly_cap": "100"}


def test_an_admin_turns_automatic_top_ups_on_and_off(world, credit):
    browser = world.client(world.customer.admin)
    card = CustomerCard.objects.get().public_id

    assert browser.post("/customer/credit/auto/", AUTO | {"card": card}).status_code == 302

    plan = AutoTopUp.objects.get()
    assert (plan.is_on, plan.threshold_minor, plan.amount_minor, plan.monthly_cap_minor) == (True, 500, 2500, 10_000)
    assert "$25.00 is charged to Visa ending in 4242" in browser.get("/customer/credit/").content.decode()
    assert browser.post("/customer/credit/auto/off/").status_code == 302
    assert AutoTopUp.objects.get().is_on is False


def test_the_page_says_what_keeps_the_card_from_being_charged(world, credit, settings, django_assert_max_num_queries):
    settings.TOPUP_FIRST_CAP_MINOR = 1000
    Organization.objects.update(created_at=NOW)
    browser, card = world.client(world.customer.admin), CustomerCard.objects.get().public_id
    browser.post("/customer/credit/auto/", AUTO | {"card": card, "threshold": "50"})
    auto_topups.begin_due(now=NOW)

    with django_assert_max_num_queries(30):
        page = browser.get("/customer/credit/").content.decode()

    assert "rules against stolen cards let no top-up begin" in page
    assert "At most 10 USD may be bought within 24 hours for now" in page
    assert "So much may be bought from 2026-11-16 15:00 UTC on" in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"amount": "abc"}, "Write an amount"),
        ({"amount": "1"}, "Buy 5 USD to 10000 USD at a time."),
        ({"monthly_cap": "10"}, "at least one purchase"),
        ({"threshold": "0.001"}, "no smaller unit"),
        ({"threshold": "0"}, "at most 10000 USD"),
        ({"card": "card_unknown"}, "Select a valid choice"),
    ],
)
def test_terms_that_cannot_be_are_refused_in_words(world, credit, changes, said):
    given = AUTO | {"card": CustomerCard.objects.get().public_id} | changes

    page = world.client(world.customer.admin).post("/customer/credit/auto/", given)

    assert said in page.content.decode()
    assert not AutoTopUp.objects.exists()


@pytest.mark.parametrize("who", ["member", "reader"])
def test_only_admins_decide_what_is_charged_on_its_own(world, credit, who):
    browser = world.client(getattr(world.customer, who))
    card = CustomerCard.objects.get()

    answers = [
        browser.post("/customer/credit/auto/", AUTO | {"card": card.public_id}),
        browser.post("/customer/credit/alert/", {"threshold": "5"}),
        browser.post(f"/customer/credit/cards/{card.public_id}/remove/"),
        browser.post("/customer/credit/postpaid/accept/"),
    ]

    assert [answer.status_code for answer in answers] == [403] * 4
    card.refresh_from_db()
    assert (card.removed_at, AutoTopUp.objects.count(), CreditAlert.objects.count()) == (None, 0, 0)


def test_an_alert_is_set_and_taken_back(world, credit):
    browser = world.client(world.customer.owner)

    browser.post("/customer/credit/alert/", {"threshold": "12.50"})
    assert CreditAlert.objects.get().threshold_nano == 12_500_000_000
    assert 'value="12.5"' in browser.get("/customer/credit/").content.decode()

    browser.post("/customer/credit/alert/", {"threshold": ""})
    assert CreditAlert.objects.get().is_on is False


def test_a_card_is_removed_after_a_question(world, credit):
    browser, card = world.client(world.customer.admin), CustomerCard.objects.get()
    url = f"/customer/credit/cards/{card.public_id}/remove/"

    assert "never charged again" in browser.get(url).content.decode()
    assert browser.post(url).status_code == 302

    assert CustomerCard.objects.get().removed_at == NOW
    assert browser.get(url).status_code == 404
    assert world.client(world.stranger).get(url).status_code in {302, 404}


def test_buying_with_the_card_kept_goes_to_stripe_once(shop, world):
    browser = world.client(world.customer.owner)
    form = {"amount": "25", "keep_card": "on", "client_key": "one"}

    first, second = browser.post("/customer/credit/", form), browser.post("/customer/credit/", form)

    topup = TopUp.objects.get()
    assert first["location"] == second["location"] == topup.checkout_url
    assert (topup.amount_minor, topup.saves_card) == (2500, True)
    saving.pay(shop, topup)
    page = browser.get(f"/customer/credit/{topup.public_id}/").content.decode()
    assert "The credit is on your account." in page
    topup.refresh_from_db()
    assert (topup.state, CustomerCard.objects.get().organization) == ("paid", world.customer.organization)
    assert topup.invoice_url in browser.get("/customer/credit/").content.decode()
    assert topups.fulfil(topup_id=topup.pk, now=NOW).state == "paid"


def test_the_operator_gives_credit_with_an_end_once(world, django_assert_max_num_queries):
    browser, owner = world.client(world.operator), world.customer.organization
    form = {"amount": "10", "expires_on": "2026-12-31", "note": "sorry", "client_key": "k1"}

    for _ in range(2):
        assert browser.post(f"/operator/customers/{owner.public_id}/credit/gift/", form).status_code == 302

    grant = PromoGrant.objects.get()
    assert (grant.amount_nano, grant.expires_at) == (10 * EUROS, datetime(2027, 1, 1, tzinfo=UTC))
    with django_assert_max_num_queries(30):
        assert "sorry" in browser.get(f"/operator/customers/{owner.public_id}/credit/").content.decode()


def test_a_bank_transfer_needs_what_the_bank_says(world):
    browser, owner = world.client(world.operator), world.customer.organization
    url = f"/operator/customers/{owner.public_id}/credit/bank/"
    form = {"reference": "B-1", "amount": "40", "received_on": "2026-11-01", "payer": "ACME"}

    assert "not been received" in browser.post(url, form | {"received_on": "2026-11-03"}).content.decode()
    assert BankTransfer.objects.count() == 0
    assert browser.post(url, form).status_code == 302
    assert browser.post(url, form).status_code == 302
    assert "with another amount" in browser.post(url, form | {"amount": "41"}).content.decode()

    assert balance_of("customer_credit", owner.public_id) == 40 * EUROS
    assert balance_of("bank_balance") == 40 * EUROS


def test_an_owner_accepts_the_invitation_to_pay_afterwards(world):
    operator, owner = world.client(world.operator), world.client(world.customer.owner)
    organization = world.customer.organization.public_id

    operator.post(f"/operator/customers/{organization}/credit/postpaid/", {"limit": "100", "due_days": "14"})
    assert "invites" in owner.get("/customer/credit/").content.decode()
    assert world.client(world.customer.admin).post("/customer/credit/postpaid/accept/").status_code == 403
    assert owner.post("/customer/credit/postpaid/accept/").status_code == 302

    assert Postpaid.objects.get().state == "active"
    assert balance_of("postpaid_line", organization) == 100 * EUROS
    assert "$100.00 of $100.00 left" in owner.get("/customer/credit/").content.decode()
    refused = operator.post(f"/operator/customers/{organization}/credit/postpaid/end/", {"reason": ""})
    assert refused.status_code == 400
    assert Postpaid.objects.get().state == "active"
