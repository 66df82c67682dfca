"""The pages of API keys, as plain forms."""

from datetime import UTC, datetime

import pytest

from portal.accounts.models import ApiKey
from portal.accounts.rules import key_text
from portal.audit.models import AuditEvent
from tests.factories.accounts import ApiKeyFactory
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
