"""Invitations: mailed once, good for seven days, one person and one use."""

from datetime import timedelta

import pytest

from portal.accounts.models import Invitation, Membership, Role
from portal.accounts.services import invitations
from portal.accounts.services.invitations import AlreadyMember, InvitationForAnother, InvitationInvalid
from portal.audit.models import AuditEvent
from portal.audit.services import Actor
from portal.core.errors import Forbidden, InvalidValue, NotFound
from portal.notifications.models import Message
from tests.factories.accounts import InvitationFactory, UserFactory
from tests.world import World

ACTOR = Actor(public_id="user_test")


def invite(world: World, now, *, by=None, email="new@example.com", role="member") -> invitations.CreatedInvitation:
    membership = Membership.objects.get(organization=world.customer.organization, user=by or world.customer.owner)
    return invitations.invite_member(membership=membership, email=email, role=role, actor=ACTOR, now=now)


def test_an_invitation_is_mailed_and_its_token_is_only_there(world: World, now):
    made = invite(world, now, email=" New@Example.com ")

    message = Message.objects.get()
    assert (message.to, message.template) == ("new@example.com", "invitation")
    assert message.context["token"] == made.token
    assert made.token not in str(vars(Invitation.objects.get()))
    assert made.token not in str(list(AuditEvent.objects.values()))


def test_the_invited_person_joins_with_the_role(world: World, now):
    made = invite(world, now, role="admin")
    person = UserFactory(email="new@example.com")

    invitations.accept_invitation(token=made.token, user=person, actor=ACTOR, now=now)

    joined = Membership.objects.get(user=person)
    assert (joined.organization, joined.role) == (world.customer.organization, Role.ADMIN)
    with pytest.raises(InvitationInvalid):
        invitations.accept_invitation(token=made.token, user=person, actor=ACTOR, now=now)


def test_another_person_cannot_use_it(world: World, now):
    made = invite(world, now)

    with pytest.raises(InvitationForAnother):
        invitations.accept_invitation(token=made.token, user=world.stranger, actor=ACTOR, now=now)

    assert not Membership.objects.filter(organization=world.customer.organization, user=world.stranger).exists()
    assert Invitation.objects.get().accepted_at is None


def test_it_ends_after_seven_days(world: World, now):
    made = invite(world, now)
    person = UserFactory(email="new@example.com")

    with pytest.raises(InvitationInvalid):
        invitations.accept_invitation(token=made.token, user=person, actor=ACTOR, now=now + timedelta(days=7))

    assert not Membership.objects.filter(user=person).exists()


def test_a_newer_invitation_replaces_the_older(world: World, now):
    first = invite(world, now)
    second = invite(world, now)
    person = UserFactory(email="new@example.com")

    with pytest.raises(InvitationInvalid):
        invitations.accept_invitation(token=first.token, user=person, actor=ACTOR, now=now)
    invitations.accept_invitation(token=second.token, user=person, actor=ACTOR, now=now)

    assert Membership.objects.filter(user=person).count() == 1


def test_a_member_is_not_invited_again(world: World, now):
    with pytest.raises(AlreadyMember):
        invite(world, now, email=world.customer.reader.email)

    assert not Message.objects.exists()


def test_only_an_owner_invites_an_owner(world: World, now):
    with pytest.raises(Forbidden):
        invite(world, now, by=world.customer.admin, role="owner")

    assert not Invitation.objects.exists()


@pytest.mark.parametrize(("email", "role"), [("not an address", "member"), ("new@example.com", "king")])
def test_nonsense_is_refused(world: World, now, email: str, role: str):
    with pytest.raises(InvalidValue):
        invite(world, now, email=email, role=role)

    assert not Invitation.objects.exists()


def test_an_invitation_taken_back_does_not_work(world: World, now):
    made = invite(world, now)
    organization = world.customer.organization

    invitations.revoke_invitation(organization=organization, invitation_id=made.invitation.pk, actor=ACTOR, now=now)

    with pytest.raises(InvitationInvalid):
        invitations.accept_invitation(token=made.token, user=UserFactory(email="new@example.com"), actor=ACTOR, now=now)


def test_another_organizations_invitation_is_not_found(world: World, now):
    row = InvitationFactory(organization=world.customer.organization)

    with pytest.raises(NotFound):
        invitations.revoke_invitation(organization=world.other, invitation_id=row.pk, actor=ACTOR, now=now)

    row.refresh_from_db()
    assert row.revoked_at is None


def test_an_invitation_into_the_pool_joins_nothing(world: World, now):
    made = invitations.invite_to_pool(email="new@example.com", invited_by=world.operator, actor=ACTOR, now=now)
    person = UserFactory(email="new@example.com")

    assert invitations.accept_invitation(token=made.token, user=person, actor=ACTOR, now=now) is None
    assert not Membership.objects.filter(user=person).exists()
