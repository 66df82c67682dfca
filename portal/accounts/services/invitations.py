"""Invite by e-mail, take an invitation back, accept one."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from portal.accounts import locks
from portal.accounts.models import Invitation, Membership, Organization, Role, User
from portal.accounts.rules import invitation_text, roles
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, Forbidden, InvalidValue, NotFound
from portal.notifications import services as notifications

LIFETIME = timedelta(days=7)


class AlreadyMember(Conflict):
    """The person belongs to the organization."""

    code = "already_member"


class InvitationInvalid(NotFound):
    """The link is unknown, used, taken back or too old."""

    code = "invitation_invalid"


class InvitationForAnother(Forbidden):
    """The invitation was sent to another address than the one signed in."""

    code = "invitation_for_another"


@dataclass(frozen=True, slots=True)
class CreatedInvitation:
    """The stored invitation and its token, which is only in the e-mail."""

    invitation: Invitation
    token: str


def invite_member(*, membership: Membership, email: str, role: str, actor: Actor, now: datetime) -> CreatedInvitation:
    """Invite a person into the member's organization. Raises InvalidValue, Forbidden, AlreadyMember."""
    if role not in Role.values:
        raise InvalidValue("There is no such role.", param="role")
    if not roles.may_manage(manager=membership.role, current=Role.READ_ONLY, wanted=role):
        raise Forbidden("Only an owner may invite an owner.")
    organization = membership.organization
    email = _address(email)
    with transaction.atomic():
        require_active(locks.organization(organization_id=organization.pk))
        if Membership.objects.filter(organization=organization, user__email=email).exists():
            raise AlreadyMember(f"{email} is a member already.")
        _replace_older(organization, email, now)
        return _create(organization, email, role, membership.user, actor, now)


def invite_to_pool(*, email: str, invited_by: User, actor: Actor, now: datetime) -> CreatedInvitation:
    """Invite a person to sign up, where sign-up is by invitation. Raises InvalidValue."""
    email = _address(email)
    with transaction.atomic():
        _replace_older(None, email, now)
        return _create(None, email, Role.MEMBER, invited_by, actor, now)


def revoke_invitation(*, organization: Organization, invitation_id: int, actor: Actor, now: datetime) -> None:
    """Take an open invitation back. Raises NotFound."""
    with transaction.atomic():
        row = locks.open_invitation(organization=organization, invitation_id=invitation_id)
        row.revoked_at = now
        row.save(update_fields=["revoked_at"])
        audit.record(
            actor=actor,
            event="invitation.revoked",
            subject=row.email,
            organization=organization.public_id,
            now=now,
        )


def accept_invitation(*, token: str, user: User, actor: Actor, now: datetime) -> Membership | None:
    """Join the inviting organization (None where there is none). Raises InvitationInvalid, InvitationForAnother."""
    with transaction.atomic():
        row = locks.invitation(token_hash=invitation_text.digest(token))
        if row is None or not is_open(row, now):
            raise InvitationInvalid("This invitation does not work any more.", fix="Ask for a new one.")
        if row.email != user.email:
            raise InvitationForAnother(
                f"The invitation was sent to {row.email}.", fix="Sign in with that address and open the link again."
            )
        row.accepted_at = now
        row.save(update_fields=["accepted_at"])
        membership = _join(row, user, now) if row.organization else None
        audit.record(
            actor=actor,
            event="invitation.accepted",
            subject=user.public_id,
            organization=row.organization.public_id if row.organization else "",
            detail={"role": row.role},
            now=now,
        )
    return membership


def is_open(invitation: Invitation, now: datetime) -> bool:
    """Tell whether the invitation can still be accepted."""
    return invitation.accepted_at is None and invitation.revoked_at is None and invitation.expires_at > now


def _join(invitation: Invitation, user: User, now: datetime) -> Membership:
    membership, _ = Membership.objects.get_or_create(
        organization=invitation.organization, user=user, defaults={"role": invitation.role, "created_at": now}
    )
    return membership


def _address(email: str) -> str:
    email = email.strip().lower()
    try:
        validate_email(email)
    except ValidationError as error:
        raise InvalidValue("This is not an e-mail address.", param="email") from error
    return email


def _replace_older(organization: Organization | None, email: str, now: datetime) -> None:
    older = Invitation.objects.filter(organization=organization, email=email, accepted_at=None, revoked_at=None)
    older.update(revoked_at=now)


def _create(
    organization: Organization | None, email: str, role: str, invited_by: User, actor: Actor, now: datetime
) -> CreatedInvitation:
    token = invitation_text.new_token()
    row = Invitation.objects.create(
        organization=organization,
        email=email,
        role=role,
        token_hash=invitation_text.digest(token),
        invited_by=invited_by,
        created_at=now,
        expires_at=now + LIFETIME,
    )
    notifications.send(
        key=f"invitation:{row.pk}",
        to=email,
        template="invitation",
        context={
            "token": token,
            "organization": organization.name if organization else "",
            "inviter": invited_by.name or invited_by.email,
            "role": Role(role).label,
        },
        now=now,
    )
    audit.record(
        actor=actor,
        event="invitation.created",
        subject=email,
        organization=organization.public_id if organization else "",
        detail={"role": role},
        now=now,
    )
    return CreatedInvitation(invitation=row, token=token)
