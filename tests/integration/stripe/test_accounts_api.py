"""Providers' accounts by either of Stripe's account APIs, and a plain word where a platform is kept on the other."""

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.integrations.stripe_errors import AccountsApiBlocked
from portal.payouts.models import Payout, PayoutAccount
from portal.payouts.services import accounts, sending
from tests.factories.billing import EarningProviderFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def old(settings):
    """A pool whose platform Stripe has kept on the older API."""
    settings.STRIPE_ACCOUNTS_API = "v1"


def start(provider, now):
    """Press the onboarding button."""
    return accounts.start_onboarding(
        provider=provider,
        return_url="http://testserver/r",
        refresh_url="http://testserver/f",
        actor=SYSTEM_ACTOR,
        now=now,
    )


@pytest.mark.parametrize(
    ("action", "state", "is_identified"),
    [
        ("complete", "active", True),
        ("review", "in_review", False),
        ("leave", "onboarding", False),
        ("restrict", "restricted", False),
    ],
)
def test_the_states_are_those_of_the_newer_api(shop, now, old, action, state, is_identified):
    provider = EarningProviderFactory(is_identified=False)

    shop.onboard(provider, action=action, now=now)

    provider.refresh_from_db()
    assert (PayoutAccount.objects.get().state, provider.is_identified) == (state, is_identified)


def test_what_is_due_is_named(shop, now, old):
    provider = EarningProviderFactory()
    start(provider, now)

    row = accounts.refresh(provider_id=provider.public_id, now=now)

    assert [(one["description"], one["deadline_status"]) for one in row.requirements] == [
        ("identity.individual", "currently_due"),
        ("defaults.payout_methods", "currently_due"),
    ]


def test_a_provider_is_paid_through_it(shop, now, old):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)

    assert sending.send(payout_id=payout.pk, now=now).state == "transferred"
    assert [one["amount"] for one in shop.transfers(Payout.objects.get())] == [2550]


def test_a_closed_account_is_closed(shop, now, old):
    provider = shop.provider(earned_minor=0, now=now)
    shop.double.control("account", account=provider.payout_account.stripe_account, move="close")

    row = accounts.refresh(provider_id=provider.public_id, now=now)

    assert (row.state, row.state_code) == ("closed", "account_missing")


def test_the_account_carries_its_bank(shop, now, old):
    provider = shop.provider(earned_minor=0, now=now)

    row = PayoutAccount.objects.get(provider=provider)
    assert (row.currency, len(row.bank_fingerprint)) == ("usd", 16)


@pytest.mark.parametrize(("setting", "other"), [("v2", "v1"), ("v1", "v2")])
def test_a_platform_that_is_kept_on_the_other_api_is_told_the_setting(shop, now, settings, setting, other):
    settings.STRIPE_ACCOUNTS_API = setting
    shop.double.control("platform", accounts_blocked=setting)

    with pytest.raises(AccountsApiBlocked) as refused:
        start(EarningProviderFactory(), now)

    assert refused.value.code == "stripe_accounts_api_blocked"
    assert refused.value.fix == f"set STRIPE_ACCOUNTS_API={other} and restart portal and worker"
    assert (PayoutAccount.objects.get().stripe_account, shop.double.store.all("v2.core.account")) == (None, [])
