"""Pages that change where the money goes: only a person who has just used a second factor gets anywhere."""

import time

import pytest
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.test import Client
from django.urls import reverse

from portal.core import clock
from portal.payouts.models import BankAccount, DestinationChange, PayoutAccount
from tests.architecture.source import ROOT
from tests.factories.accounts import ApiKeyFactory
from tests.factories.payouts import open_shop
from tests.world import World

pytestmark = pytest.mark.django_db

SECRET = "JBSWY3DPEHPK3PXP"
BANK = {"scheme": "iban", "holder": "Supply AG Services", "account": "DE89370400440532013000", "bank": ""}
GUARDED = ["provider:payouts-unlink", "provider:payouts-bank", "provider:payouts-bank-withdraw"]


@pytest.fixture(autouse=True)
def by_bank(settings):
    """A pool that pays by bank transfer too."""
    settings.MANUAL_PAYOUTS = True


def with_factor(world: World) -> Client:
    """Return the supplier's owner, who has an authenticator and has not used it yet."""
    TOTP.activate(world.supplier.owner, SECRET)
    return world.client(world.supplier.owner)


def confirm(browser: Client, back: str):
    """Type the code that the authenticator shows."""
    code = format_hotp_value(hotp_value(SECRET, next(iter(yield_hotp_counters_from_time()))))
    return browser.post(f"/accounts/2fa/reauthenticate/?next={back}", {"code": code})


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("name", GUARDED)
def test_a_person_without_a_second_factor_is_led_to_set_one_up(world: World, name, method):
    answer = getattr(world.client(world.supplier.owner), method)(reverse(name), BANK if method == "post" else {})

    assert (answer.status_code, answer["location"]) == (302, "/accounts/2fa/")
    assert (BankAccount.objects.count(), DestinationChange.objects.count()) == (0, 0)


def test_the_second_factor_is_asked_and_leads_back(world: World):
    browser, page = with_factor(world), reverse("provider:payouts-bank")

    asked = browser.get(page)
    assert asked["location"] == f"/accounts/2fa/reauthenticate/?next={page.replace('/', '%2F')}"
    assert confirm(browser, page)["location"] == page
    assert browser.get(page).status_code == 200
    done = browser.post(page, BANK)

    assert done["location"] == reverse("provider:payouts")
    assert BankAccount.objects.get().last4 == "3000"
    shown = browser.get(reverse("provider:payouts")).content.decode()
    assert "…3000" in shown
    assert "0532013000" not in shown
    assert "Bank details given" in shown


def test_an_old_confirmation_is_asked_for_again(world: World):
    browser, page = with_factor(world), reverse("provider:payouts-bank")
    confirm(browser, page)
    session = browser.session
    for record in session["account_authentication_methods"]:
        record["at"] = time.time() - 601
    session.save()

    answer = browser.post(page, BANK)

    assert answer["location"].startswith("/accounts/2fa/reauthenticate/")
    assert BankAccount.objects.count() == 0


def test_wrong_details_are_explained_beside_the_field(world: World):
    browser, page = with_factor(world), reverse("provider:payouts-bank")
    confirm(browser, page)

    answer = browser.post(page, BANK | {"account": "DE89370400440532013001"})

    assert "this is no IBAN: invalid checksum digits" in answer.content.decode()
    assert BankAccount.objects.count() == 0


def test_an_account_is_unlinked_after_the_factor(world: World):
    with open_shop() as shop:
        shop.onboard(world.provider, action="complete", now=clock.now())
        browser, page = with_factor(world), reverse("provider:payouts-unlink")
        assert browser.post(reverse("provider:payouts-onboard"))["location"].startswith("/accounts/2fa/reauthenticate/")
        assert browser.post(reverse("provider:payouts-dashboard"))["location"].startswith("/accounts/2fa/reauth")
        confirm(browser, page)
        assert browser.post(reverse("provider:payouts-onboard"))["location"].startswith(shop.double.url)
        assert browser.post(reverse("provider:payouts-dashboard"))["location"].startswith(shop.double.url)
        assert "72 hours" in browser.get(page).content.decode()

        answer = browser.post(page)

    assert answer["location"] == reverse("provider:payouts")
    assert PayoutAccount.objects.get().stripe_account is None
    assert "Payouts rest until" in browser.get(reverse("provider:payouts")).content.decode()


@pytest.mark.parametrize(
    "name", [*GUARDED, "provider:payouts-onboard", "provider:payouts-dashboard", "provider:profile"]
)
def test_no_key_changes_where_the_money_goes(world: World, name):
    key = ApiKeyFactory(organization=world.supplier.organization)
    before = (world.provider.legal_name, world.provider.country)

    for secret in (f"sk-pool-{key.public_id}", f"mk-pool-{key.public_id}"):
        answer = Client().post(reverse(name), BANK, headers={"authorization": f"Bearer {secret}", "x-api-key": secret})
        assert answer["location"].startswith("/accounts/login/")

    world.provider.refresh_from_db()
    assert (BankAccount.objects.count(), PayoutAccount.objects.count(), DestinationChange.objects.count()) == (0, 0, 0)
    assert (world.provider.legal_name, world.provider.country) == before


def test_the_interfaces_for_machines_do_not_know_these_services():
    machine = [*(ROOT / "portal" / "api").rglob("*.py"), *(ROOT / "portal" / "gateway").rglob("*.py")]
    words = ("portal.payouts.services", "providers.services.profile")
    naming = [path.name for path in machine if any(word in path.read_text() for word in words)]

    assert (naming, len(machine) > 50) == ([], True)
