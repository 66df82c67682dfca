"""The pages of projects, as plain forms."""

import pytest

from portal.accounts.models import Project
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services.projects import ProjectTerms, terms_of
from tests.factories.accounts import ApiKeyFactory, ProjectFactory
from tests.world import World

FORM = {
    "name": "support chat",
    "budget_cap": "50",
    "budget_period": "week",
    "requests_per_minute": "600",
    "tokens_per_minute": "",
    "parallel_requests": "8",
}


def test_a_project_is_created_and_listed(world: World):
    browser = world.client(world.customer.member)

    page = browser.post("/customer/projects/new/", FORM, follow=True).content.decode()

    wanted = ProjectTerms("support chat", LimitTerms(600, None, 8), Budget(50_000_000_000, "week"))
    assert terms_of(Project.objects.get()) == wanted
    assert "support chat is ready" in page
    assert "$0.00</strong> of $50.00 a week" in page
    assert "600 requests a minute, 8 at once" in page


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"name": "Taken"}, "name", "Another project has this name."),
        ({"budget_cap": "much"}, "budget_cap", "Write an amount such as 25 or 12.50."),
        ({"budget_cap": "0"}, "budget_cap", "A budget is above zero"),
        ({"parallel_requests": "-1"}, "parallel_requests", "greater than or equal to 1"),
    ],
)
def test_a_mistake_is_named_at_its_field(world: World, change, field: str, words: str):
    ProjectFactory(organization=world.customer.organization, name="taken")

    response = world.client(world.customer.member).post("/customer/projects/new/", FORM | change)

    assert words in str(response.context["form"].errors[field])
    assert Project.objects.count() == 1


def test_a_change_shows_what_is_set(world: World):
    project = ProjectFactory(organization=world.customer.organization, budget_cap_nano=7_000_000_000)
    browser = world.client(world.customer.member)

    assert 'value="7"' in browser.get(f"/customer/projects/{project.public_id}/").content.decode()
    browser.post(f"/customer/projects/{project.public_id}/", FORM | {"budget_cap": ""})

    project.refresh_from_db()
    assert (project.name, project.budget_cap_nano) == ("support chat", None)


def test_a_project_with_keys_says_why_it_stays(world: World):
    project = ProjectFactory(organization=world.customer.organization)
    ApiKeyFactory(organization=world.customer.organization, project=project)
    browser = world.client(world.customer.member)

    response = browser.post(f"/customer/projects/{project.public_id}/archive/")

    project.refresh_from_db()
    assert response.status_code == 409
    assert "1 live key" in response.content.decode()
    assert project.archived_at is None


def test_an_empty_project_is_archived(world: World):
    project = ProjectFactory(organization=world.customer.organization)

    page = world.client(world.customer.member).post(f"/customer/projects/{project.public_id}/archive/", follow=True)

    project.refresh_from_db()
    assert project.archived_at is not None
    assert "is archived" in page.content.decode()
