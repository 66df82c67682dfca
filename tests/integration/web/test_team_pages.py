"""The team's pages, and acting for one of several organizations."""

from portal.accounts.models import Invitation, Membership, Role
from tests.factories.accounts import MembershipFactory
from tests.world import World


def test_an_admin_invites(world: World):
    response = world.client(world.customer.admin).post(
        "/accounts/team/", {"email": "new@example.com", "role": "member"}, follow=True
    )

    assert Invitation.objects.get().email == "new@example.com"
    assert "An invitation is on its way to new@example.com." in response.content.decode()


def test_an_admin_cannot_invite_an_owner(world: World):
    response = world.client(world.customer.admin).post("/accounts/team/", {"email": "new@example.com", "role": "owner"})

    assert "Only an owner may invite an owner." in response.content.decode()
    assert not Invitation.objects.exists()


def test_a_reader_sees_the_team_and_no_forms(world: World):
    page = world.client(world.customer.reader).get("/accounts/team/").content.decode()

    assert world.customer.owner.email in page
    assert "Send invitation" not in page
    assert "Remove<" not in page


def test_the_last_owner_is_told_why_not(world: World):
    response = world.client(world.customer.owner).post("/accounts/team/leave/")

    assert response.status_code == 409
    assert "Make another member an owner first." in response.content.decode()
    assert Membership.objects.filter(user=world.customer.owner).exists()


def test_a_person_switches_between_organizations(world: World):
    person = world.customer.member
    MembershipFactory(organization=world.both.organization, user=person, role=Role.READ_ONLY)
    browser = world.client(person)
    assert "Custom GmbH as a customer" in browser.get("/customer/").content.decode()

    response = browser.post("/accounts/organization/switch/", {"organization": world.both.organization.public_id})

    assert response["location"] == "/customer/"
    assert "Both Ltd as a customer" in browser.get("/customer/").content.decode()
    assert browser.get("/customer/keys/new/").status_code == 403


def test_nobody_switches_to_anothers_organization(world: World):
    browser = world.client(world.stranger)

    response = browser.post("/accounts/organization/switch/", {"organization": world.customer.organization.public_id})

    assert response.status_code == 404
    assert "Other Inc as a customer" in browser.get("/customer/").content.decode()


def test_a_forged_session_opens_nothing(world: World):
    browser = world.client(world.stranger, world.customer.organization)

    assert "Other Inc as a customer" in browser.get("/customer/").content.decode()


def test_who_leaves_loses_access_at_once(world: World):
    browser = world.client(world.customer.member)
    browser.get("/customer/")

    browser.post("/accounts/team/leave/")

    assert browser.get("/customer/")["location"] == "/accounts/organization/new/"


def test_an_organization_opens_its_other_side(world: World):
    browser = world.client(world.customer.admin)

    response = browser.post("/accounts/organization/sides/", {"side": "provider"})

    world.customer.organization.refresh_from_db()
    assert response["location"] == "/provider/"
    assert world.customer.organization.is_provider
    assert browser.post("/accounts/organization/sides/", {"side": "bank"}).status_code == 400


def test_the_theme_is_kept_and_nonsense_is_not(world: World):
    browser = world.client()

    browser.post("/theme", {"theme": "dark"})
    assert 'data-theme="dark"' in browser.get("/").content.decode()

    browser.post("/theme", {"theme": '"><script>'})
    assert 'data-theme="dark"' in browser.get("/").content.decode()


def test_the_theme_leads_back_inside_alone(world: World):
    browser = world.client()

    inside = browser.post("/theme", {"theme": "dark"}, headers={"referer": "http://testserver/accounts/login/"})
    outside = browser.post("/theme", {"theme": "dark"}, headers={"referer": "https://evil.example/x"})

    assert (inside["location"], outside["location"]) == ("/accounts/login/", "/")
