"""A live key gets other terms: audited with what was before, announced, refused where it cannot be."""

from dataclasses import replace
from datetime import timedelta

import pytest

from portal.accounts.locks import ProjectArchived
from portal.accounts.models import ApiKey
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services import keys
from portal.audit.models import AuditEvent
from portal.core.errors import InvalidValue, NotFound
from tests.factories.accounts import ProjectFactory
from tests.integration.accounts.acting import ACTOR, TERMS, announcements, create
from tests.world import World


def change(organization, key, now, **changes):
    return keys.change_key(
        organization=organization, public_id=key.public_id, terms=replace(TERMS, **changes), actor=ACTOR, now=now
    )


def test_every_term_can_be_changed(world: World, now):
    organization = world.customer.organization
    key = create(organization, now=now).key
    project = ProjectFactory(organization=organization)
    wanted = replace(
        TERMS,
        name="production",
        node_classes=("house",),
        budget=Budget(7_000_000_000, "week"),
        limits=LimitTerms(60, 10_000, 4),
        expires_at=now + timedelta(days=30),
        project=project.public_id,
        allows_tools=False,
        tools_on_any_class=True,
        is_private_only=True,
        allowed_models=("acme/a", "acme/b"),
        networks=("192.0.2.0/24", "2001:db8::/32"),
        countries=("DE", "FR"),
    )

    with announcements() as heard:
        keys.change_key(organization=organization, public_id=key.public_id, terms=wanted, actor=ACTOR, now=now)

    assert keys.terms_of(ApiKey.objects.get()) == wanted
    assert heard == [f"keys:{key.public_id}"]
    detail = AuditEvent.objects.get(event="api_key.changed").detail
    assert (detail["from"]["name"], detail["to"]["name"]) == ("staging", "production")
    assert detail["to"]["budget"] == {"cap_nano": 7_000_000_000, "period": "week"}


def test_no_change_is_no_event(world: World, now):
    key = create(world.customer.organization, now=now).key

    with announcements() as heard:
        change(world.customer.organization, key, now, node_classes=("house", "contracted"))

    assert heard == []
    assert not AuditEvent.objects.filter(event="api_key.changed").exists()


def test_networks_are_kept_in_one_form(world: World, now):
    made = create(
        world.customer.organization, now=now, networks=("192.0.2.9/24", "::ffff:198.51.100.0/120", "192.0.2.0/24")
    )

    assert made.key.networks == ["192.0.2.0/24", "198.51.100.0/24"]


def test_a_revoked_key_changes_no_more(world: World, now):
    key = create(world.customer.organization, now=now).key
    keys.revoke_key(organization=world.customer.organization, public_id=key.public_id, actor=ACTOR, now=now)

    with pytest.raises(keys.KeyAlreadyRevoked):
        change(world.customer.organization, key, now, name="again")

    assert ApiKey.objects.get().name == "staging"


def test_an_expired_key_may_keep_its_expiry_but_gets_no_other_in_the_past(world: World, now):
    key = create(world.customer.organization, now=now, expires_at=now + timedelta(days=1)).key
    later = now + timedelta(days=2)

    change(world.customer.organization, key, later, name="renamed", expires_at=key.expires_at)
    with pytest.raises(InvalidValue) as refusal:
        change(world.customer.organization, key, later, expires_at=later - timedelta(hours=1))

    assert refusal.value.param == "expires_at"
    assert ApiKey.objects.get().name == "renamed"


def test_a_stranger_changes_nothing(world: World, now):
    key = create(world.customer.organization, now=now).key

    with pytest.raises(NotFound):
        change(world.other, key, now, name="mine")

    assert ApiKey.objects.get().name == "staging"


def test_anothers_project_does_not_exist(world: World, now):
    foreign = ProjectFactory(organization=world.other)

    with pytest.raises(InvalidValue) as refusal:
        create(world.customer.organization, now=now, project=foreign.public_id)

    assert refusal.value.param == "project"
    assert not ApiKey.objects.exists()


def test_an_archived_project_takes_no_key(world: World, now):
    archived = ProjectFactory(organization=world.customer.organization, archived_at=now)

    with pytest.raises(ProjectArchived):
        create(world.customer.organization, now=now, project=archived.public_id)

    assert not ApiKey.objects.exists()
