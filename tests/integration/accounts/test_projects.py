"""Projects: keys that share limits and a budget."""

from datetime import timedelta

import pytest

from portal.accounts.locks import ProjectArchived
from portal.accounts.models import OrganizationState, Project
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services import keys, organizations, projects
from portal.accounts.services.organizations import OrganizationSuspended
from portal.accounts.services.projects import ProjectTerms
from portal.audit.models import AuditEvent
from portal.core.errors import InvalidValue, NotFound
from tests.factories.accounts import ProjectFactory
from tests.integration.accounts.acting import ACTOR, announcements, create
from tests.world import World

WANTED = ProjectTerms("support chat", LimitTerms(600, None, 8), Budget(50_000_000_000, "week"))


def make(organization, now, wanted=WANTED):
    return projects.create_project(organization=organization, wanted=wanted, created_by=None, actor=ACTOR, now=now)


def test_a_project_is_kept_announced_and_audited(world: World, now):
    with announcements() as heard:
        project = make(world.customer.organization, now)

    assert projects.terms_of(Project.objects.get()) == WANTED
    assert heard == [f"organizations:{project.public_id}"]
    assert AuditEvent.objects.get(event="project.created").detail["budget"]["cap_nano"] == 50_000_000_000


def test_a_change_says_what_was_before(world: World, now):
    project = make(world.customer.organization, now)
    wanted = ProjectTerms("support", LimitTerms(), Budget())

    projects.change_project(
        organization=world.customer.organization, public_id=project.public_id, wanted=wanted, actor=ACTOR, now=now
    )

    assert projects.terms_of(Project.objects.get()) == wanted
    detail = AuditEvent.objects.get(event="project.changed").detail
    assert (detail["from"]["name"], detail["to"]["name"]) == ("support chat", "support")


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        (ProjectTerms(" "), "name"),
        (ProjectTerms("SUPPORT chat"), "name"),
        (ProjectTerms("x", LimitTerms(parallel_requests=0)), "parallel_requests"),
        (ProjectTerms("x", LimitTerms(), Budget(-1)), "budget_cap"),
    ],
)
def test_unusable_terms_name_the_field(world: World, now, wanted, param):
    make(world.customer.organization, now)

    with pytest.raises(InvalidValue) as refusal:
        make(world.customer.organization, now, wanted)

    assert refusal.value.param == param
    assert Project.objects.count() == 1


def test_a_project_with_live_keys_is_not_archived(world: World, now):
    organization = world.customer.organization
    project = make(organization, now)
    key = create(organization, now=now, project=project.public_id).key

    with pytest.raises(projects.ProjectHasKeys):
        projects.archive_project(organization=organization, public_id=project.public_id, actor=ACTOR, now=now)
    assert Project.objects.get().archived_at is None

    keys.revoke_key(organization=organization, public_id=key.public_id, actor=ACTOR, now=now)
    projects.archive_project(organization=organization, public_id=project.public_id, actor=ACTOR, now=now)
    assert Project.objects.get().archived_at == now


def test_an_archived_project_stays_as_it_was_and_frees_its_name(world: World, now):
    organization = world.customer.organization
    project = ProjectFactory(organization=organization, name="support chat", archived_at=now - timedelta(days=1))

    with pytest.raises(ProjectArchived):
        projects.change_project(
            organization=organization, public_id=project.public_id, wanted=WANTED, actor=ACTOR, now=now
        )

    make(organization, now)
    assert Project.objects.filter(name="support chat").count() == 2


def test_a_stranger_finds_no_project(world: World, now):
    project = make(world.customer.organization, now)

    with pytest.raises(NotFound):
        projects.archive_project(organization=world.other, public_id=project.public_id, actor=ACTOR, now=now)

    assert Project.objects.get().archived_at is None


def test_a_suspended_organization_begins_none(world: World, now):
    organization = world.customer.organization
    organizations.suspend_organization(public_id=organization.public_id, reason="fraud", actor=ACTOR, now=now)
    organization.refresh_from_db()
    assert organization.state == OrganizationState.SUSPENDED

    with pytest.raises(OrganizationSuspended):
        make(organization, now)

    assert not Project.objects.exists()
