"""Sign-up as SIGNUP says, sign-in, and where people land."""

import pytest
from allauth.account.models import EmailAddress
from django.core import mail

from portal.accounts.models import Invitation, Membership, User
from portal.accounts.services import invitations
from portal.audit.services import Actor
from portal.core import clock
from portal.notifications import services as notifications
from portal.notifications.models import Message
from tests.world import World

PERSON = {"name": "Bo Baker", "email": "bo@example.com", "password1": "a long enough secret"}
SIGN_UP = "/accounts/signup/"


def invite(world: World, email: str = "bo@example.com", *, into_team: bool = True) -> str:
    actor = Actor(public_id="user_test")
    if not into_team:
        made = invitations.invite_to_pool(email=email, invited_by=world.operator, actor=actor, now=clock.now())
        return made.token
    membership = Membership.objects.get(user=world.customer.owner)
    made = invitations.invite_member(membership=membership, email=email, role="member", actor=actor, now=clock.now())
    return made.token


def test_open_anyone_signs_up_and_begins_an_organization(world: World):
    browser = world.client()

    response = browser.post(SIGN_UP, PERSON, follow=True)

    person = User.objects.get(email="bo@example.com")
    assert person.name == "Bo Baker"
    assert response.redirect_chain[-1][0] == "/accounts/organization/new/"
    response = browser.post(response.request["PATH_INFO"], {"name": "Bo Ltd", "country": "DE", "sides": ["customer"]})
    assert response["location"] == "/customer/"
    assert Membership.objects.get(user=person).organization.name == "Bo Ltd"


def test_a_new_provider_is_led_to_the_profile(world: World):
    browser = world.client()
    browser.post(SIGN_UP, PERSON)

    response = browser.post(
        "/accounts/organization/new/", {"name": "Bo GPUs", "country": "DE", "sides": ["provider"]}, follow=True
    )

    assert response.redirect_chain[-1][0] == "/provider/profile/"


@pytest.mark.parametrize("mode", ["invite", "closed"])
def test_without_an_invitation_nobody_signs_up(world: World, settings, mode: str):
    settings.SIGNUP = mode

    response = world.client().post(SIGN_UP, PERSON)

    assert b"Sign-up is not open" in response.content
    assert not User.objects.filter(email="bo@example.com").exists()


def test_closed_means_closed_for_the_invited_too(world: World, settings):
    settings.SIGNUP = "closed"
    browser = world.client()
    browser.get(f"/accounts/invitations/{invite(world)}/")

    browser.post(SIGN_UP, PERSON)

    assert not User.objects.filter(email="bo@example.com").exists()


def test_an_invited_person_signs_up_and_joins(world: World, settings):
    settings.SIGNUP = "invite"
    token = invite(world)
    browser = world.client()
    assert b"Join Custom GmbH" in browser.get(f"/accounts/invitations/{token}/").content

    response = browser.post(SIGN_UP, PERSON)
    assert response["location"] == f"/accounts/invitations/{token}/"
    response = browser.post(f"/accounts/invitations/{token}/accept/", follow=True)

    joined = Membership.objects.get(user__email="bo@example.com")
    assert (joined.organization, joined.role) == (world.customer.organization, "member")
    assert response.redirect_chain[-1][0] == "/customer/"
    assert EmailAddress.objects.get(email="bo@example.com").verified


def test_an_invitation_is_for_its_address_alone(world: World, settings):
    settings.SIGNUP = "invite"
    browser = world.client()
    browser.get(f"/accounts/invitations/{invite(world, 'someone@example.com')}/")

    response = browser.post(SIGN_UP, PERSON)

    assert b"The invitation was sent to someone@example.com" in response.content
    assert not User.objects.filter(email="bo@example.com").exists()


def test_an_invitation_into_the_pool_leads_to_an_organization_of_ones_own(world: World, settings):
    settings.SIGNUP = "invite"
    token = invite(world, into_team=False)
    browser = world.client()
    browser.get(f"/accounts/invitations/{token}/")
    browser.post(SIGN_UP, PERSON)

    response = browser.post(f"/accounts/invitations/{token}/accept/")

    assert response["location"] == "/accounts/organization/new/"
    assert Invitation.objects.get().accepted_at is not None


def test_another_signed_in_person_cannot_accept(world: World):
    token = invite(world)

    response = world.client(world.stranger).post(f"/accounts/invitations/{token}/accept/")

    assert response.status_code == 403
    assert not Membership.objects.filter(user=world.stranger, organization=world.customer.organization).exists()


def test_an_invitation_that_is_over_is_gone(world: World):
    response = world.client().get("/accounts/invitations/unknown/")

    assert response.status_code == 404
    assert b"This invitation does not work" in response.content


def test_sign_in_by_address_and_password(world: World):
    browser = world.client()
    world.customer.owner.set_password("right horse")
    world.customer.owner.save()

    wrong = browser.post("/accounts/login/", {"login": world.customer.owner.email, "password": "wrong horse"})
    right = browser.post("/accounts/login/", {"login": world.customer.owner.email.upper(), "password": "right horse"})

    assert wrong.status_code == 200
    assert (right.status_code, right["location"]) == (302, "/")
    assert browser.get("/")["location"] == "/customer/"


def test_sign_in_leads_back_to_the_page_that_was_asked_for(world: World):
    browser = world.client()
    world.customer.owner.set_password("right horse")
    world.customer.owner.save()

    asked = browser.get("/customer/keys/")
    response = browser.post(asked["location"], {"login": world.customer.owner.email, "password": "right horse"})

    assert response["location"] == "/customer/keys/"


def test_an_unproven_address_waits_where_mail_leaves(world: World, settings):
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    browser = world.client()

    response = browser.post(SIGN_UP, PERSON)

    assert response["location"] == "/accounts/confirm-email/"
    assert browser.get("/customer/")["location"].startswith("/accounts/login/")


def test_sign_in_mail_goes_through_the_notifications(world: World):
    world.client().post("/accounts/password/reset/", {"email": world.customer.owner.email})

    message = Message.objects.get()
    assert "/accounts/password/reset/key/" in message.context["body"]
    assert mail.outbox == []
    notifications.deliver_due(now=clock.now())
    message.refresh_from_db()
    assert mail.outbox[0].to == [world.customer.owner.email]
    assert message.context == {}
