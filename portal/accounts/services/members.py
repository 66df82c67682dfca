"""Change a member's role and end a membership. Every organization keeps an owner."""

from datetime import datetime

from django.db import transaction

from portal.accounts import locks
from portal.accounts.models import Membership, Organization, Role
from portal.accounts.rules import roles
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, Forbidden, InvalidValue


class LastOwner(Conflict):
    """The organization would be left without an owner."""

    code = "last_owner"


def change_role(*, manager: Membership, user_public_id: str, role: str, actor: Actor, now: datetime) -> Membership:
    """Give a member another role. Raises InvalidValue, NotFound, Forbidden, LastOwner."""
    with transaction.atomic():
        organization = locks.organization(organization_id=manager.organization_id)
        require_active(organization)
        row = locks.membership(organization=organization, user_public_id=user_public_id)
        acting = locks.membership(organization=organization, user_public_id=manager.user.public_id)
        if role not in Role.values:
            raise InvalidValue("There is no such role.", param="role")
        if not roles.may_manage(manager=acting.role, current=row.role, wanted=role):
            raise Forbidden("An admin changes roles below owner; an owner changes all.")
        if role != Role.OWNER:
            _require_another_owner(organization, row)
        before, row.role = row.role, role
        row.save(update_fields=["role"])
        audit.record(
            actor=actor,
            event="member.role_changed",
            subject=user_public_id,
            organization=organization.public_id,
            detail={"from": before, "to": role},
            now=now,
        )
    return row


def remove_member(*, manager: Membership, user_public_id: str, actor: Actor, now: datetime) -> None:
    """End another's membership. Raises NotFound, Forbidden, LastOwner."""
    with transaction.atomic():
        organization = locks.organization(organization_id=manager.organization_id)
        row = locks.membership(organization=organization, user_public_id=user_public_id)
        acting = locks.membership(organization=organization, user_public_id=manager.user.public_id)
        if not roles.may_manage(manager=acting.role, current=row.role, wanted=row.role):
            raise Forbidden("An admin removes members below owner; an owner removes all.")
        _end(organization, row, "member.removed", actor, now)


def leave(*, membership: Membership, actor: Actor, now: datetime) -> None:
    """End one's own membership. Raises NotFound, LastOwner."""
    with transaction.atomic():
        organization = locks.organization(organization_id=membership.organization_id)
        row = locks.membership(organization=organization, user_public_id=membership.user.public_id)
        _end(organization, row, "member.left", actor, now)


def _end(organization: Organization, row: Membership, event: str, actor: Actor, now: datetime) -> None:
    _require_another_owner(organization, row)
    person, role = row.user.public_id, row.role
    row.delete()
    audit.record(
        actor=actor,
        event=event,
        subject=person,
        organization=organization.public_id,
        detail={"role": role},
        now=now,
    )


def _require_another_owner(organization: Organization, row: Membership) -> None:
    if row.role != Role.OWNER:
        return
    others = Membership.objects.filter(organization=organization, role=Role.OWNER).exclude(pk=row.pk)
    if not others.exists():
        raise LastOwner(f"{organization.name} would have no owner.", fix="Make another member an owner first.")
