"""The operator's console: organizations, tables that only show, and the command that makes operators."""

import io

import pytest
from django.core.management import CommandError, call_command

from portal.accounts.models import ApiKey, Invitation, OrganizationState, User
from portal.audit.models import AuditEvent
from portal.operators.admin.site import site
from tests.factories.accounts import ApiKeyFactory
from tests.world import World


def test_an_organization_is_suspended_with_a_reason(world: World):
    browser, organization = world.client(world.operator), world.customer.organization
    url = f"/operator/customers/{organization.public_id}/"

    browser.post(url, {"reason": ""})
    organization.refresh_from_db()
    assert organization.state == OrganizationState.ACTIVE

    browser.post(url, {"reason": "stolen card"})
    organization.refresh_from_db()
    event = AuditEvent.objects.get(event="organization.suspended")
    assert organization.state == OrganizationState.SUSPENDED
    assert (event.actor, event.detail) == (world.operator.public_id, {"reason": "stolen card"})
    assert "This organization is suspended" in world.client(world.customer.owner).get("/customer/").content.decode()

    browser.post(url, {"reason": "settled"})
    organization.refresh_from_db()
    assert organization.state == OrganizationState.ACTIVE


def test_organizations_are_found_by_name_and_id(world: World):
    browser = world.client(world.operator)

    by_name = browser.get("/operator/customers/?search=custom").content.decode()
    by_id = browser.get(f"/operator/customers/?search={world.supplier.organization.public_id}").content.decode()
    nothing = browser.get("/operator/customers/?search=nobody").content.decode()

    assert ("Custom GmbH" in by_name, "Supply AG" in by_name) == (True, False)
    assert "Supply AG" in by_id
    assert "Nothing matches" in nothing


def test_an_operator_invites_into_the_pool(world: World):
    world.client(world.operator).post("/operator/customers/", {"email": "new@example.com"})

    made = Invitation.objects.get()
    assert (made.email, made.organization, made.invited_by) == ("new@example.com", None, world.operator)


@pytest.mark.parametrize("model", sorted(site._registry, key=lambda model: model._meta.label), ids=str)
def test_a_table_shows_and_changes_nothing(world: World, model):
    browser = world.client(world.operator)
    name = f"/operator/tables/{model._meta.app_label}/{model._meta.model_name}/"

    assert browser.get(name).status_code == 200
    assert browser.get(f"{name}add/").status_code == 403
    assert browser.post(f"{name}add/", {}).status_code == 403


def test_a_tables_row_hides_what_is_secret(world: World):
    key = ApiKeyFactory(organization=world.customer.organization)
    browser = world.client(world.operator)
    url = f"/operator/tables/accounts/apikey/{key.pk}/change/"

    page = browser.get(url).content.decode()

    assert key.public_id in page
    assert key.digest not in page
    assert browser.post(url, {"name": "changed"}).status_code == 403
    assert browser.post(f"/operator/tables/accounts/apikey/{key.pk}/delete/", {"post": "yes"}).status_code == 403
    assert ApiKey.objects.get().name == key.name


def test_a_persons_password_is_never_shown(world: World):
    person = world.customer.owner

    page = world.client(world.operator).get(f"/operator/tables/accounts/user/{person.pk}/change/").content.decode()

    assert person.email in page
    assert person.password not in page


@pytest.fixture
def typed(monkeypatch):
    """Let a text come on standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_the_command_makes_an_operator(db, typed):
    typed("a long enough secret\n")

    call_command("create_operator", email="Ana@Pool.example", name="Ana")

    user = User.objects.get()
    assert (user.email, user.name, user.is_operator, user.is_staff) == ("ana@pool.example", "Ana", True, False)
    assert user.check_password("a long enough secret")
    assert AuditEvent.objects.get().event == "operator.created"


def test_a_weak_password_makes_nobody(db, typed):
    typed("password")

    with pytest.raises(CommandError, match=r"invalid_value: .*too common"):
        call_command("create_operator", email="ana@pool.example")

    assert not User.objects.exists()


def test_the_command_takes_it_back(world: World):
    call_command("create_operator", email=world.operator.email, revoke=True)

    assert not User.objects.get(pk=world.operator.pk).is_operator
    assert world.client(world.operator).get("/operator/").status_code == 403
