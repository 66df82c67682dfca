"""A provider's account: opened once, state read from Stripe, identity follows, and a dead one can be replaced."""

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.integrations.stripe_errors import PaymentOutcomeUnknown, PaymentRejected
from portal.payouts.errors import AccountGone, CountryNotPayable, HouseIsNotPaid
from portal.payouts.models import PayoutAccount
from portal.payouts.services import accounts
from portal.providers.models import Provider, ProviderKind
from tests.factories.billing import EarningProviderFactory

pytestmark = pytest.mark.django_db


def start(provider, now):
    """Press the onboarding button."""
    return accounts.start_onboarding(
        provider=provider,
        return_url="http://testserver/return",
        refresh_url="http://testserver/refresh",
        actor=SYSTEM_ACTOR,
        now=now,
    )


@pytest.mark.parametrize(
    ("action", "state", "code", "is_identified"),
    [
        ("complete", "active", "", True),
        ("review", "in_review", "determining_status", False),
        ("leave", "onboarding", "", False),
        ("restrict", "restricted", "restricted_other", False),
    ],
)
def test_the_state_is_what_stripe_says(shop, now, action, state, code, is_identified):
    provider = EarningProviderFactory(is_identified=False)

    shop.onboard(provider, action=action, now=now)

    row = PayoutAccount.objects.get(provider=provider)
    provider.refresh_from_db()
    assert (row.state, row.state_code, row.fetched_at) == (state, code, now)
    assert provider.is_identified is is_identified


def test_coming_back_proves_nothing(shop, now):
    provider = EarningProviderFactory(is_identified=False)
    start(provider, now)

    accounts.refresh(provider_id=provider.public_id, now=now)

    provider = Provider.objects.get()
    assert (provider.payout_account.state, provider.is_identified) == ("onboarding", False)


def test_a_working_account_that_needs_more_stays_payable(shop, now):
    provider = shop.provider(earned_minor=0, now=now)
    shop.double.control("account", account=provider.payout_account.stripe_account, move="remind")

    row = accounts.refresh(provider_id=provider.public_id, now=now)

    assert row.state == "action_required"
    assert [entry["description"] for entry in row.requirements] == ["identity.individual.documents"]


def test_each_click_makes_a_new_link_to_the_same_account(shop, now):
    provider = EarningProviderFactory()

    first, second = start(provider, now), start(provider, now)

    assert first != second
    assert len(shop.double.store.all("v2.core.account")) == 1


def test_the_account_survives_a_lost_answer(shop, now):
    provider = EarningProviderFactory()
    shop.double.control("fail", path="/v2/core/accounts", kind="reset", when="after", count=3)
    with pytest.raises(PaymentOutcomeUnknown):
        start(provider, now)
    Provider.objects.filter(pk=provider.pk).update(legal_name="Renamed AG")
    provider.refresh_from_db()

    start(provider, now)

    made = shop.double.store.all("v2.core.account")
    assert [one["id"] for one in made] == [PayoutAccount.objects.get().stripe_account]


def test_the_country_is_checked_before_anyone_gives_details(shop, now, settings):
    settings.PAYOUT_COUNTRIES = ["US", "FR"]
    provider = EarningProviderFactory(country="DE")

    with pytest.raises(CountryNotPayable):
        start(provider, now)

    assert (PayoutAccount.objects.count(), shop.double.store.all("v2.core.account")) == (0, [])


def test_house_providers_have_no_account(shop, now):
    with pytest.raises(HouseIsNotPaid):
        start(EarningProviderFactory(kind=ProviderKind.HOUSE), now)


def test_a_country_stripe_does_not_know_is_unsupported(shop, now):
    provider = EarningProviderFactory(country="KP")
    start(provider, now)

    row = accounts.refresh(provider_id=provider.public_id, now=now)

    assert (row.state, row.state_code) == ("unsupported", "unsupported_country")


def test_a_closed_account_is_unlinked_and_replaced(shop, now):
    provider = shop.provider(earned_minor=0, now=now)
    old = provider.payout_account.stripe_account
    shop.double.control("account", account=old, move="close")
    assert accounts.refresh(provider_id=provider.public_id, now=now).state == "closed"
    with pytest.raises(AccountGone):
        start(provider, now)

    accounts.unlink(provider=provider, confirmed_at=now, actor=SYSTEM_ACTOR, now=now)
    new = shop.onboard(provider, action="complete", now=now)

    assert new.startswith("acct_")
    assert new != old
    assert PayoutAccount.objects.get().state == "active"


def test_an_account_stripe_has_forgotten_counts_as_closed(shop, now):
    provider = shop.provider(earned_minor=0, now=now)
    shop.double.control("reset")

    row = accounts.refresh(provider_id=provider.public_id, now=now)

    provider.refresh_from_db()
    assert (row.state, row.state_code, provider.is_identified) == ("closed", "account_missing", False)


def test_a_platform_without_a_profile_is_told_so(shop, now):
    shop.double.control("platform", platform_unregistered="1")

    with pytest.raises(PaymentRejected) as refused:
        start(EarningProviderFactory(), now)

    assert refused.value.stripe_code == "platform_registration_required"
