"""API keys: created once, shown once, revoked for good, each act audited and announced."""

from datetime import timedelta

import pytest

from portal.accounts.models import ApiKey, OrganizationState
from portal.accounts.rules import key_text
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services import keys, organizations
from portal.accounts.services.organizations import OrganizationSuspended
from portal.audit.models import AuditEvent
from portal.core.errors import InvalidValue, NotFound
from tests.factories.accounts import ApiKeyFactory
from tests.integration.accounts.acting import ACTOR, announcements, create
from tests.world import World


def test_a_key_is_stored_as_its_hash_alone(world: World, now):
    with announcements() as heard:
        made = create(world.customer.organization, now=now)

    stored = ApiKey.objects.get()
    assert stored.digest == key_text.digest(made.text)
    assert made.text not in str(vars(stored))
    assert stored.node_classes == ["house", "contracted"]
    assert stored.budget_cap_nano == 25_000_000_000
    assert heard == [f"keys:{stored.public_id}"]


def test_creating_a_key_is_audited_without_its_text(world: World, now):
    made = create(world.customer.organization, now=now)

    event = AuditEvent.objects.get(event="api_key.created")
    assert (event.actor, event.subject, event.address) == ("user_test", made.key.public_id, "203.0.113.9")
    assert event.organization == world.customer.organization.public_id
    assert made.text not in str(event.detail)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"name": "  "}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"node_classes": []}, "node_classes"),
        ({"node_classes": ["moon"]}, "node_classes"),
        ({"budget": Budget(0)}, "budget_cap"),
        ({"budget": Budget(1, "fortnight")}, "budget_period"),
        ({"limits": LimitTerms(requests_per_minute=0)}, "requests_per_minute"),
        ({"allowed_models": ()}, "allowed_models"),
        ({"networks": ("192.0.2.0/33",)}, "networks"),
        ({"countries": ("Germany",)}, "countries"),
        ({"project": "proj_nobody"}, "project"),
    ],
)
def test_unusable_terms_name_the_field_and_create_nothing(world: World, now, change, param):
    with pytest.raises(InvalidValue) as refusal:
        create(world.customer.organization, now=now, **change)

    assert refusal.value.param == param
    assert not ApiKey.objects.exists()


def test_an_expiry_in_the_past_is_refused(world: World, now):
    with pytest.raises(InvalidValue) as refusal:
        create(world.customer.organization, now=now, expires_at=now)

    assert refusal.value.param == "expires_at"


def test_a_suspended_organization_gets_no_key(world: World, now):
    organization = world.customer.organization
    organizations.suspend_organization(public_id=organization.public_id, reason="fraud", actor=ACTOR, now=now)

    with pytest.raises(OrganizationSuspended):
        create(organization, now=now)

    assert not ApiKey.objects.exists()


def test_a_revoked_key_stays_revoked(world: World, now):
    key = ApiKeyFactory(organization=world.customer.organization)

    with announcements() as heard:
        keys.revoke_key(organization=world.customer.organization, public_id=key.public_id, actor=ACTOR, now=now)

    key.refresh_from_db()
    assert key.revoked_at == now
    assert heard == [f"keys:{key.public_id}"]
    assert AuditEvent.objects.get(event="api_key.revoked").subject == key.public_id
    with pytest.raises(keys.KeyAlreadyRevoked):
        keys.revoke_key(
            organization=world.customer.organization,
            public_id=key.public_id,
            actor=ACTOR,
            now=now + timedelta(hours=1),
        )
    key.refresh_from_db()
    assert key.revoked_at == now


def test_another_organizations_key_is_not_found(world: World, now):
    key = ApiKeyFactory(organization=world.customer.organization)

    with pytest.raises(NotFound):
        keys.revoke_key(organization=world.other, public_id=key.public_id, actor=ACTOR, now=now)

    key.refresh_from_db()
    assert key.revoked_at is None


def test_there_is_a_limit_to_live_keys(world: World, now):
    organization = world.customer.organization
    ApiKeyFactory(organization=organization, revoked_at=now)
    ApiKey.objects.bulk_create(ApiKeyFactory.build_batch(999, organization=organization))
    create(organization, now=now)

    with pytest.raises(keys.TooManyKeys):
        create(organization, now=now)

    assert ApiKey.objects.filter(organization=organization, revoked_at=None).count() == 1000


def test_suspension_is_announced_and_lifted(world: World, now):
    organization = world.customer.organization

    with announcements() as heard:
        organizations.suspend_organization(public_id=organization.public_id, reason="fraud", actor=ACTOR, now=now)
        organizations.reinstate_organization(public_id=organization.public_id, reason="settled", actor=ACTOR, now=now)

    organization.refresh_from_db()
    assert organization.state == OrganizationState.ACTIVE
    assert heard == [f"organizations:{organization.public_id}"] * 2
    reasons = [event.detail["reason"] for event in AuditEvent.objects.order_by("pk")]
    assert reasons == ["fraud", "settled"]
