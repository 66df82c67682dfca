"""Purchases are counted in the database: by organization and by address, with caps, cards and 3-D Secure."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from portal.accounts.models import Organization
from portal.billing.models import CustomerRisk, PaidCharge, TopUp, TopUpAttempt
from portal.billing.services import disputes, risk, topup_guard, topups
from portal.core.errors import DomainError
from tests.factories.accounts import OrganizationFactory
from tests.integration.returns.till import paid

HOME = "8.8.4.4"


def begin(organization, now, *, amount=1000, address=HOME):
    """Ask the guard as a purchase does."""
    return topup_guard.require(organization=organization, amount_minor=amount, address=address, now=now)


@pytest.fixture
def buyer(db, now):
    return OrganizationFactory(created_at=now)


@pytest.mark.django_db
def test_attempts_of_an_organization_are_limited_and_say_when_it_goes_on(buyer, now, settings):
    settings.TOPUP_ATTEMPTS_PER_HOUR = 2
    begin(buyer, now, address=None)
    begin(buyer, now + timedelta(minutes=20), address=None)

    with pytest.raises(topup_guard.TooManyAttempts) as refusal:
        begin(buyer, now + timedelta(minutes=30), address=None)

    assert refusal.value.code == "too_many_topup_attempts"
    assert refusal.value.fix == "Try again after 2026-11-02 13:00 UTC."
    assert TopUpAttempt.objects.count() == 2
    begin(buyer, now + timedelta(hours=1), address=None)


@pytest.mark.django_db
def test_attempts_from_an_address_are_limited_over_all_organizations(now, settings):
    settings.TOPUP_ADDRESS_ATTEMPTS_PER_DAY = 3
    for _ in range(3):
        begin(OrganizationFactory(created_at=now), now)

    with pytest.raises(topup_guard.TooManyAttempts):
        begin(OrganizationFactory(created_at=now), now + timedelta(hours=23))

    begin(OrganizationFactory(created_at=now), now + timedelta(hours=23), address="9.9.9.9")
    begin(OrganizationFactory(created_at=now), now + timedelta(hours=24))


@pytest.mark.django_db
def test_addresses_are_never_stored_plain(buyer, now):
    begin(buyer, now)

    digest = TopUpAttempt.objects.get().address_digest
    assert (len(digest), HOME in digest) == (64, False)


@pytest.mark.django_db
@pytest.mark.parametrize(("weeks", "most"), [(0, 10_000), (1, 20_000), (4, 50_000)])
def test_the_cap_of_a_day_grows_with_age(buyer, now, weeks, most):
    Organization.objects.update(created_at=now - timedelta(weeks=weeks))

    with pytest.raises(topup_guard.TopUpCapReached) as refusal:
        begin(buyer, now, amount=most + 1)

    assert (refusal.value.code, refusal.value.param, TopUpAttempt.objects.count()) == ("topup_cap_reached", "amount", 0)
    assert begin(buyer, now, amount=most).asks_3ds


@pytest.mark.django_db
def test_purchases_of_the_day_count_together(buyer, now):
    TopUp.objects.create(organization=buyer, amount_minor=6000, currency="usd", state="open", created_at=now)

    with pytest.raises(topup_guard.TopUpCapReached, match="40 USD are left"):
        begin(buyer, now, amount=4001)

    begin(buyer, now, amount=4000)
    begin(buyer, now + timedelta(days=1), amount=10_000)


@pytest.mark.django_db
def test_what_was_paid_long_enough_ago_raises_the_cap(buyer, now):
    TopUp.objects.create(
        organization=buyer,
        amount_minor=9000,
        currency="usd",
        state="paid",
        created_at=now - timedelta(days=15),
        paid_at=now - timedelta(days=15),
    )

    begin(buyer, now, amount=28_000)


@pytest.mark.django_db
def test_one_card_too_many_stops_spending_and_buying(shop, now, settings):
    settings.TOPUP_CARDS = 1
    topup = paid(shop, amount=1000, now=now)
    organization = topup.organization
    shop.double.control("card", behaves_like="5555555555554444")
    second = shop.start(organization, topup.created_by, amount=1000, now=now, key="2")
    shop.post_page(second.checkout_url, "pay")
    topups.fulfil(topup_id=second.pk, now=now)

    risk.judge(organization_id=organization.pk, now=now)

    organization.refresh_from_db()
    assert (PaidCharge.objects.values("card_digest").distinct().count(), organization.stopped_for) == (2, "cards")
    with pytest.raises(topup_guard.SpendingStopped):
        begin(organization, now)


@pytest.mark.django_db
def test_a_card_that_was_disputed_elsewhere_stops_at_once(shop, now):
    first = paid(shop, amount=1000, now=now)
    disputes.read(dispute=shop.double.control("dispute", charge=first.charge)["id"], now=now)

    second = paid(shop, amount=1000, now=now)
    risk.judge(organization_id=second.organization_id, now=now)

    assert Organization.objects.get(pk=second.organization_id).stopped_for == "known_card"


@pytest.mark.django_db
def test_first_purchases_ask_for_3d_secure_and_the_row_remembers(shop, now):
    """The parameters of a Checkout are frozen with its key: a retry asks the same."""
    organization, user = shop.customer()

    topup = shop.start(organization, user, amount=1000, now=now)

    assert (topup.asks_3ds, topup.state) == (True, "open")


@pytest.mark.django_db
def test_a_known_customer_is_not_asked(buyer, now):
    CustomerRisk.objects.create(organization=buyer, tier="known", judged_at=now)
    for number in range(3):
        TopUp.objects.create(
            organization=buyer,
            amount_minor=500,
            currency="usd",
            state="paid",
            client_key=str(number),
            created_at=now - timedelta(days=70),
            paid_at=now - timedelta(days=70),
        )

    assert not begin(buyer, now).asks_3ds


@pytest.mark.django_db
def test_the_same_purchase_again_is_no_new_attempt(shop, now):
    organization, user = shop.customer()

    first, again = (shop.start(organization, user, amount=1000, now=now, key="once") for _ in range(2))

    assert (first.pk, TopUpAttempt.objects.count()) == (again.pk, 1)


@pytest.mark.django_db(transaction=True)
def test_ten_at_once_get_no_more_than_is_allowed(now, settings):
    settings.TOPUP_ATTEMPTS_PER_HOUR = 3
    settings.TOPUP_ADDRESS_ATTEMPTS_PER_HOUR = 4
    organizations = [OrganizationFactory(created_at=now) for _ in range(2)]
    passed: list[int] = []

    def attempt(organization) -> None:
        try:
            topup_guard.require(organization=organization, amount_minor=100, address=HOME, now=now)
            passed.append(organization.pk)
        except DomainError:
            return
        finally:
            connection.close()

    threads = [threading.Thread(target=attempt, args=[organizations[number % 2]]) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(passed) == 4
    assert max(passed.count(organization.pk) for organization in organizations) <= 3
