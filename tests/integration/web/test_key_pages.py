"""The pages of API keys, as plain forms."""

from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from portal.accounts.models import AlertKind, ApiKey, KeyAlert, KeySighting, RetiredSecret
from portal.accounts.rules import key_text
from portal.accounts.rules.key_terms import KeyTerms
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services.keys import terms_of
from portal.audit.models import AuditEvent
from portal.billing.models import BudgetWindow
from portal.billing.rules import windows
from portal.core import clock
from tests.factories.accounts import ApiKeyFactory, ProjectFactory
from tests.factories.billing import PricedModelFactory
from tests.world import World

FORM = {
    "name": "staging",
    "node_classes": ["house", "community"],
    "budget_cap": "12.50",
    "budget_period": "month",
    "expires_on": "",
}


def test_a_new_key_is_shown_once_and_never_kept(world: World):
    PricedModelFactory(public_id="acme/chat-8b")
    browser = world.client(world.customer.member)

    response = browser.post("/customer/keys/new/", FORM)

    stored = ApiKey.objects.get()
    text = response.context["text"]
    assert key_text.digest(text) == stored.digest
    assert text in response.content.decode()
    assert "acme/chat-8b" in response.content.decode()
    assert response["cache-control"] == "private, no-store"
    assert text not in str(dict(browser.session))
    assert text not in browser.get("/customer/keys/").content.decode()
    assert (stored.node_classes, stored.budget_cap_nano) == (["house", "community"], 12_500_000_000)
    assert stored.created_by == world.customer.member


def test_the_form_says_what_each_class_means_and_when_the_cap_starts_again(world: World):
    page = world.client(world.customer.member).get("/customer/keys/new/").content.decode()

    assert "an owner could read prompts and answers" in page
    assert "Midnight in your organization&#x27;s time zone." in page
    assert 'value="100"' in page


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"budget_cap": "ten"}, "budget_cap", "Write an amount such as 25 or 12.50."),
        ({"budget_cap": "0"}, "budget_cap", "A budget is above zero"),
        ({"expires_on": "2020-01-01"}, "expires_on", "The expiry lies in the past."),
        ({"name": ""}, "name", "This field is required."),
        ({"node_classes": []}, "node_classes", "This field is required."),
    ],
)
def test_a_mistake_is_named_at_its_field(world: World, change, field: str, words: str):
    response = world.client(world.customer.member).post("/customer/keys/new/", FORM | change)

    assert words in str(response.context["form"].errors[field])
    assert not ApiKey.objects.exists()


def test_no_cap_and_an_expiry(world: World):
    world.client(world.customer.member).post(
        "/customer/keys/new/", FORM | {"budget_cap": "", "expires_on": "2099-05-01"}
    )

    stored = ApiKey.objects.get()
    assert stored.budget_cap_nano is None
    assert stored.expires_at == datetime(2099, 5, 1, tzinfo=UTC)


def test_revoking_asks_first(world: World):
    key = ApiKeyFactory(organization=world.customer.organization, name="old one")
    browser = world.client(world.customer.member)

    asked = browser.get(f"/customer/keys/{key.public_id}/revoke/")
    key.refresh_from_db()
    assert key.revoked_at is None
    assert "Revoke old one" in asked.content.decode()

    done = browser.post(f"/customer/keys/{key.public_id}/revoke/", follow=True)
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert "every gateway refuses it within a second" in done.content.decode()
    assert AuditEvent.objects.get(event="api_key.revoked").actor == world.customer.member.public_id


def test_revoking_twice_is_said(world: World, now):
    key = ApiKeyFactory(organization=world.customer.organization, revoked_at=now)

    response = world.client(world.customer.member).post(f"/customer/keys/{key.public_id}/revoke/")

    assert response.status_code == 409
    assert "key_already_revoked" in response.content.decode()


def test_a_key_with_every_term(world: World):
    PricedModelFactory(public_id="acme/chat-8b")
    project = ProjectFactory(organization=world.customer.organization, name="support chat")
    asked = FORM | {
        "project": project.public_id,
        "budget_period": "week",
        "requests_per_minute": "60",
        "tokens_per_minute": "",
        "parallel_requests": "4",
        "allows_tools": "on",
        "is_private_only": "on",
        "countries": ["DE", "FR"],
        "allowed_models": ["acme/chat-8b"],
        "networks": "192.0.2.0/24\n2001:db8::/32, 198.51.100.7",
    }

    world.client(world.customer.member).post("/customer/keys/new/", asked)

    stored = terms_of(ApiKey.objects.get())
    assert stored == KeyTerms(
        name="staging",
        node_classes=("house", "community"),
        budget=Budget(12_500_000_000, "week"),
        limits=LimitTerms(60, None, 4),
        project=project.public_id,
        is_private_only=True,
        allowed_models=("acme/chat-8b",),
        networks=("192.0.2.0/24", "2001:db8::/32", "198.51.100.7/32"),
        countries=("DE", "FR"),
    )


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"networks": "192.0.2.0/24\nexample.com"}, "networks", "'example.com' is no IP address or network"),
        ({"requests_per_minute": "0"}, "requests_per_minute", "greater than or equal to 1"),
        ({"project": "proj_nobody"}, "project", "not one of the available choices"),
        ({"countries": ["XX"]}, "countries", "not one of the available choices"),
        ({"allowed_models": ["no/such"]}, "allowed_models", "not one of the available choices"),
    ],
)
def test_a_mistake_in_the_policy_is_named_at_its_field(world: World, change, field: str, words: str):
    response = world.client(world.customer.member).post("/customer/keys/new/", FORM | change)

    assert words in unescape(str(response.context["form"].errors[field]))
    assert not ApiKey.objects.exists()


def test_the_form_of_a_change_shows_what_the_key_has_and_changes_it(world: World):
    key = ApiKeyFactory(
        organization=world.customer.organization, networks=["192.0.2.0/24"], budget_cap_nano=5_000_000_000
    )
    browser = world.client(world.customer.member)

    page = browser.get(f"/customer/keys/{key.public_id}/change/").content.decode()
    assert "192.0.2.0/24" in page
    assert 'value="5"' in page

    done = browser.post(f"/customer/keys/{key.public_id}/change/", FORM | {"networks": ""}, follow=True)
    key.refresh_from_db()
    assert (key.name, key.networks, key.budget_cap_nano) == ("staging", [], 12_500_000_000)
    assert "every gateway knows within a second" in done.content.decode()


def test_a_key_may_keep_a_model_that_left_the_catalogue(world: World):
    key = ApiKeyFactory(organization=world.customer.organization, allowed_models=["acme/gone"])
    browser = world.client(world.customer.member)

    assert "acme/gone, no longer offered" in browser.get(f"/customer/keys/{key.public_id}/change/").content.decode()
    browser.post(f"/customer/keys/{key.public_id}/change/", FORM | {"allowed_models": ["acme/gone"]})

    key.refresh_from_db()
    assert key.allowed_models == ["acme/gone"]


def test_the_list_says_what_a_key_may_has_spent_and_where_it_was_used(world: World):
    organization = world.customer.organization
    organization.time_zone = "Asia/Tokyo"
    organization.save()
    key = ApiKeyFactory(
        organization=organization,
        budget_cap_nano=40_000_000_000,
        requests_per_minute=60,
        networks=["192.0.2.0/24"],
        countries=["DE"],
        allows_tools=False,
    )
    now = clock.now()
    window = windows.window_of(period="month", zone="Asia/Tokyo", at=now)
    BudgetWindow.objects.create(
        organization=organization,
        owner=key.public_id,
        period="month",
        starts_at=window.starts_at,
        ends_at=window.ends_at,
        cap_nano=40_000_000_000,
        used_nano=10_000_000_000,
    )
    KeySighting.objects.create(key=key, network="203.0.113.0/24", country="FR", first_seen_at=now, last_seen_at=now)
    KeyAlert.objects.create(
        key=key,
        kind=AlertKind.NEW_COUNTRY,
        subject="FR",
        detail={"network": "203.0.113.0/24", "country": "FR"},
        created_at=now,
    )

    page = world.client(world.customer.reader).get("/customer/keys/").content.decode()

    for words in (
        "60 requests a minute",
        "1 network",
        "no tools",
        "$10.00</strong> of $40.00 a month",
        "25% of the budget",
        "00:00 Asia/Tokyo",
        "203.0.113.0/24 (FR)",
        "used from a new country",
    ):
        assert words in page, words


def test_rotating_shows_the_new_secret_once(world: World):
    key = ApiKeyFactory(organization=world.customer.organization, name="production")
    browser = world.client(world.customer.member)

    assert "Both count on the same limits" in browser.get(f"/customer/keys/{key.public_id}/rotate/").content.decode()
    response = browser.post(f"/customer/keys/{key.public_id}/rotate/", {"grace_hours": "24"})

    key.refresh_from_db()
    text = response.context["text"]
    assert key_text.digest(text) == key.digest
    assert text in response.content.decode()
    assert text not in browser.get(f"/customer/keys/{key.public_id}/").content.decode()
    assert key.grace_until - key.rotated_at == timedelta(hours=24)


def test_the_old_secret_can_be_ended_from_the_keys_page(world: World):
    key = ApiKeyFactory(organization=world.customer.organization)
    browser = world.client(world.customer.member)
    browser.post(f"/customer/keys/{key.public_id}/rotate/", {"grace_hours": "24"})

    page = browser.get(f"/customer/keys/{key.public_id}/").content.decode()
    assert "The old secret still works." in page
    assert "Nobody has used it since the rotation." in page

    browser.post(f"/customer/keys/{key.public_id}/end-grace/")
    assert not RetiredSecret.objects.filter(works_until__gt=clock.now()).exists()
    assert "The old secret still works." not in browser.get(f"/customer/keys/{key.public_id}/").content.decode()


@pytest.mark.parametrize("page", ["change", "rotate"])
def test_a_revoked_key_is_neither_changed_nor_rotated(world: World, now, page: str):
    key = ApiKeyFactory(organization=world.customer.organization, revoked_at=now)
    before = key.digest

    assert world.client(world.customer.member).get(f"/customer/keys/{key.public_id}/{page}/").status_code == 409
    response = world.client(world.customer.member).post(f"/customer/keys/{key.public_id}/{page}/", FORM)

    key.refresh_from_db()
    assert (response.status_code, key.digest, key.name) == (409, before, key.name)
