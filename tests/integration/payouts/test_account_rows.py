"""What went wrong with providers' accounts elsewhere, as people there reported it, and what happens here."""

import pytest
from django.urls import reverse

from portal.audit.services import SYSTEM_ACTOR
from portal.payouts.models import Payout, PayoutAccount
from portal.payouts.services import accounts, drafts
from tests.factories.payouts import balance_of, earn
from tests.world import World

pytestmark = pytest.mark.django_db


def press(world: World):
    """Press the onboarding button; return the page that follows."""
    browser = world.client(world.supplier.owner)
    return browser.post(reverse("provider:payouts-onboard"), follow=True)


def test_a_negative_balance_at_stripe_is_skipped_with_a_note(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.double.control("account/debt", account=provider.payout_account.stripe_account, amount=500)

    for _ in range(3):
        run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)

    assert [one.reason.code for one in run.skipped] == ["negative_at_stripe"]
    assert (Payout.objects.count(), balance_of("provider_available", provider.public_id)) == (0, 25_500_000_000)


@pytest.mark.parametrize(
    ("platform", "words"),
    [
        ({"platform_unregistered": "1"}, "platform_registration_required"),
        ({"accounts_blocked": "v2"}, "Set STRIPE_ACCOUNTS_API=v1"),
    ],
)
def test_a_platform_that_is_not_approved_is_told_at_the_button(shop, world: World, platform, words):
    shop.double.control("platform", **platform)

    page = press(world).content.decode()

    assert "Stripe could not open the form" in page
    assert words in page
    assert PayoutAccount.objects.get().stripe_account is None


def test_a_country_that_is_not_paid_is_told_at_the_button(shop, world: World, settings):
    settings.PAYOUT_COUNTRIES = ["US"]

    answer = press(world)

    assert answer.status_code == 400
    assert "countries that are paid: US" in answer.content.decode()
    assert (PayoutAccount.objects.count(), shop.double.store.all("v2.core.account")) == (0, [])


@pytest.mark.parametrize("move", ["close", "forget"])
def test_a_dead_account_does_not_wedge_the_provider(shop, now, move):
    provider = shop.provider(earned_minor=0, now=now)
    if move == "forget":
        shop.double.control("reset")
    else:
        shop.double.control("account", account=provider.payout_account.stripe_account, move="close")
    earn(provider, minor=2550, now=now)
    assert accounts.refresh(provider_id=provider.public_id, now=now).state == "closed"
    (skipped,) = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).skipped
    assert skipped.reason.code == "account_not_payable"

    accounts.unlink(provider=provider, confirmed_at=now, actor=SYSTEM_ACTOR, now=now)
    shop.onboard(provider, action="complete", now=now)

    assert PayoutAccount.objects.get().state == "active"
