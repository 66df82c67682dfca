"""Keys as the gateway's snapshot holds them: policy, limits and budgets of key, project and organization."""

from dataclasses import replace
from ipaddress import ip_network

import pytest
from django.db import OperationalError, connection

from portal.accounts.rules import key_text
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services import keys, organization_terms, organizations, projects
from portal.accounts.services.organization_terms import OrganizationTerms
from portal.accounts.services.projects import ProjectTerms
from portal.gateway.contracts import NO_LIMITS, OPEN_POLICY, BudgetTerms, KeyPolicy, Limits
from portal.gateway.snapshot_loader import SnapshotLoader, distrusting
from tests.integration.accounts.acting import ACTOR, create
from tests.world import World


@pytest.fixture
def loader() -> SnapshotLoader:
    return SnapshotLoader()


def entry(loader, made, now):
    return loader.load(now=now).keys[bytes.fromhex(key_text.digest(made.text))]


def test_a_key_with_everything(world: World, loader, now):
    organization = world.customer.organization
    own = OrganizationTerms(LimitTerms(1_000, None, 64), Budget(900, "month"))
    organization_terms.change_terms(organization=organization, wanted=own, actor=ACTOR, now=now)
    organization_terms.set_time_zone(organization=organization, time_zone="Asia/Tokyo", actor=ACTOR, now=now)
    ceilings = LimitTerms(500, 70_000, None)
    organization_terms.set_ceilings(public_id=organization.public_id, ceilings=ceilings, actor=ACTOR, now=now)
    terms = ProjectTerms("chat", LimitTerms(tokens_per_minute=5), Budget(40, "week"))
    project = projects.create_project(organization=organization, wanted=terms, created_by=None, actor=ACTOR, now=now)
    made = create(
        organization,
        now=now,
        budget=Budget(7, "day"),
        limits=LimitTerms(60, 10_000, 4),
        project=project.public_id,
        allows_tools=False,
        is_private_only=True,
        allowed_models=("acme/a",),
        networks=("192.0.2.0/24",),
        countries=("DE",),
    )

    found = entry(loader, made, now)

    assert found.policy == KeyPolicy(
        models=frozenset({"acme/a"}),
        networks=(ip_network("192.0.2.0/24"),),
        countries=frozenset({"DE"}),
        allows_tools=False,
        is_private_only=True,
    )
    assert found.limits == Limits(60, 10_000, 4)
    assert (found.project, found.project_limits) == (project.public_id, Limits(tokens_per_minute=5))
    assert found.organization_limits == Limits(500, 70_000, 64)
    assert found.budgets == (
        BudgetTerms(made.key.public_id, "day", 7, "Asia/Tokyo"),
        BudgetTerms(project.public_id, "week", 40, "Asia/Tokyo"),
        BudgetTerms(organization.public_id, "month", 900, "Asia/Tokyo"),
    )


def test_what_many_keys_have_alike_is_one_object(world: World, loader, now):
    organization = world.customer.organization
    own = OrganizationTerms(LimitTerms(9), Budget(900))
    organization_terms.change_terms(organization=organization, wanted=own, actor=ACTOR, now=now)
    first, second = (entry(loader, create(organization, now=now, networks=("192.0.2.0/24",)), now) for _ in range(2))

    assert first.policy is second.policy
    assert first.organization_limits is second.organization_limits
    assert first.budgets[-1] is second.budgets[-1]
    assert first.node_classes is second.node_classes
    assert first.organization is second.organization


def test_a_plain_key_has_the_constants(world: World, loader, now):
    found = entry(loader, create(world.customer.organization, now=now, budget=Budget()), now)

    assert found.policy is OPEN_POLICY
    assert found.limits is NO_LIMITS
    assert found.project_limits is NO_LIMITS
    assert (found.project, found.budgets) == (None, ())


def test_a_change_of_project_or_organization_reaches_its_keys(world: World, loader, now):
    organization = world.customer.organization
    project = projects.create_project(
        organization=organization, wanted=ProjectTerms("chat"), created_by=None, actor=ACTOR, now=now
    )
    made = create(organization, now=now, project=project.public_id)
    assert entry(loader, made, now).project_limits is NO_LIMITS

    wanted = ProjectTerms("chat", LimitTerms(parallel_requests=1))
    projects.change_project(organization=organization, public_id=project.public_id, wanted=wanted, actor=ACTOR, now=now)
    assert entry(loader, made, now).project_limits == Limits(parallel_requests=1)

    own = OrganizationTerms(LimitTerms(2), Budget())
    organization_terms.change_terms(organization=organization, wanted=own, actor=ACTOR, now=now)
    assert entry(loader, made, now).organization_limits == Limits(2)


def test_keys_of_a_project_that_changed_unseen_are_refused(world: World, loader, now):
    organization = world.customer.organization
    project = projects.create_project(
        organization=organization, wanted=ProjectTerms("chat"), created_by=None, actor=ACTOR, now=now
    )
    inside, outside = create(organization, now=now, project=project.public_id), create(organization, now=now)
    snapshot = loader.load(now=now)

    refused = distrusting(snapshot, suspects=[project.public_id]).keys

    assert refused[bytes.fromhex(key_text.digest(inside.text))].is_revoked
    assert not refused[bytes.fromhex(key_text.digest(outside.text))].is_revoked


def test_a_change_of_an_organization_reads_its_keys_alone(world: World, loader, now):
    organization = world.customer.organization
    mine, others = create(organization, now=now), create(world.other, now=now)
    before = entry(loader, others, now)

    own = OrganizationTerms(LimitTerms(2), Budget())
    organization_terms.change_terms(organization=organization, wanted=own, actor=ACTOR, now=now)

    assert entry(loader, mine, now).organization_limits == Limits(2)
    assert entry(loader, others, now) is before


def test_a_change_is_not_lost_where_the_database_fails_half_way(world: World, loader, now):
    organization = world.customer.organization
    made = create(organization, now=now)
    assert entry(loader, made, now).is_organization_active
    organizations.suspend_organization(public_id=organization.public_id, reason="fraud", actor=ACTOR, now=now)

    def failing(execute, sql, params, many, context):
        if 'FROM "accounts_apikey"' in sql:
            raise OperationalError("the connection is gone")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(failing), pytest.raises(OperationalError):
        loader.load(now=now)

    assert not entry(loader, made, now).is_organization_active


def test_what_did_not_change_is_the_same_snapshot(world: World, loader, now):
    create(world.customer.organization, now=now)

    assert loader.load(now=now) is loader.load(now=now)


def test_a_key_moves_between_projects(world: World, loader, now):
    organization = world.customer.organization
    made = create(organization, now=now)
    assert entry(loader, made, now).project is None
    project = projects.create_project(
        organization=organization,
        wanted=ProjectTerms("chat", LimitTerms(3)),
        created_by=None,
        actor=ACTOR,
        now=now,
    )

    keys.change_key(
        organization=organization,
        public_id=made.key.public_id,
        terms=replace(keys.terms_of(made.key), project=project.public_id),
        actor=ACTOR,
        now=now,
    )

    found = entry(loader, made, now)
    assert (found.project, found.project_limits) == (project.public_id, Limits(3))
