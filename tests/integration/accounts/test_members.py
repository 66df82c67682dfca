"""Members: roles change by rank, and no organization is ever without an owner."""

import pytest

from portal.accounts.models import Membership, Role
from portal.accounts.services import members, organizations
from portal.accounts.services.members import LastOwner
from portal.audit.models import AuditEvent
from portal.audit.services import Actor
from portal.core.errors import Forbidden, InvalidValue, NotFound
from tests.factories.accounts import MembershipFactory, UserFactory
from tests.world import Team, World


def membership(team: Team, user) -> Membership:
    return Membership.objects.get(organization=team.organization, user=user)


def change(team: Team, by, who, role: str, now) -> Membership:
    return members.change_role(
        manager=membership(team, by),
        user_public_id=who.public_id,
        role=role,
        actor=Actor(public_id=by.public_id),
        now=now,
    )


def test_an_owner_makes_a_member_owner(world: World, now):
    change(world.customer, world.customer.owner, world.customer.member, "owner", now)

    assert membership(world.customer, world.customer.member).role == Role.OWNER
    event = AuditEvent.objects.get(event="member.role_changed")
    assert (event.actor, event.subject) == (world.customer.owner.public_id, world.customer.member.public_id)
    assert event.detail == {"from": "member", "to": "owner"}


@pytest.mark.parametrize(("who", "role"), [("member", "owner"), ("owner", "member")])
def test_an_admin_cannot_touch_owners(world: World, now, who: str, role: str):
    person = getattr(world.customer, who)

    with pytest.raises(Forbidden):
        change(world.customer, world.customer.admin, person, role, now)

    assert membership(world.customer, person).role == who
    assert not AuditEvent.objects.filter(event="member.role_changed").exists()


def test_a_role_that_was_taken_meanwhile_counts(world: World, now):
    stale = membership(world.customer, world.customer.admin)
    change(world.customer, world.customer.owner, world.customer.admin, "read_only", now)

    with pytest.raises(Forbidden):
        members.change_role(
            manager=stale,
            user_public_id=world.customer.reader.public_id,
            role="admin",
            actor=Actor(public_id="user_x"),
            now=now,
        )

    assert membership(world.customer, world.customer.reader).role == Role.READ_ONLY


def test_the_last_owner_stays_owner(world: World, now):
    with pytest.raises(LastOwner):
        change(world.customer, world.customer.owner, world.customer.owner, "admin", now)

    assert membership(world.customer, world.customer.owner).role == Role.OWNER


def test_the_last_owner_cannot_leave(world: World, now):
    owner = world.customer.owner

    with pytest.raises(LastOwner) as refusal:
        members.leave(membership=membership(world.customer, owner), actor=Actor(public_id=owner.public_id), now=now)

    assert refusal.value.fix == "Make another member an owner first."
    assert membership(world.customer, owner).role == Role.OWNER


def test_an_owner_may_leave_another_behind(world: World, now):
    team, owner = world.customer, world.customer.owner
    MembershipFactory(organization=team.organization, role=Role.OWNER)

    members.leave(membership=membership(team, owner), actor=Actor(public_id=owner.public_id), now=now)

    assert not Membership.objects.filter(organization=team.organization, user=owner).exists()
    assert AuditEvent.objects.get(event="member.left").subject == owner.public_id


def test_an_admin_removes_a_member(world: World, now):
    team = world.customer

    members.remove_member(
        manager=membership(team, team.admin),
        user_public_id=team.member.public_id,
        actor=Actor(public_id=team.admin.public_id),
        now=now,
    )

    assert not Membership.objects.filter(organization=team.organization, user=team.member).exists()
    assert AuditEvent.objects.get(event="member.removed").actor == team.admin.public_id


def test_a_stranger_is_not_found(world: World, now):
    with pytest.raises(NotFound):
        change(world.customer, world.customer.owner, world.stranger, "admin", now)

    assert Membership.objects.get(user=world.stranger).organization == world.other


def test_an_unknown_role_is_refused(world: World, now):
    with pytest.raises(InvalidValue):
        change(world.customer, world.customer.owner, world.customer.member, "king", now)

    assert membership(world.customer, world.customer.member).role == Role.MEMBER


def test_who_begins_an_organization_owns_it(world: World, now):
    person = UserFactory()

    made = organizations.create_organization(
        name=" New Ltd ", owner=person, country="de", is_provider=True, is_customer=False, now=now
    )

    assert (made.name, made.country, made.is_provider, made.is_customer) == ("New Ltd", "DE", True, False)
    assert Membership.objects.get(organization=made).role == Role.OWNER
    assert AuditEvent.objects.get(event="organization.created").subject == made.public_id


def test_an_organization_is_here_for_something(world: World, now):
    with pytest.raises(InvalidValue):
        organizations.create_organization(
            name="Idle", owner=world.stranger, country="DE", is_provider=False, is_customer=False, now=now
        )
