"""The one way to lock this room's rows; organizations come first in the order of locks."""

from portal.accounts.models import ApiKey, Invitation, Membership, Organization, Project
from portal.core.errors import Conflict, NotFound


class ProjectArchived(Conflict):
    """The project takes no more keys and changes no more."""

    code = "project_archived"


def organization(*, organization_id: int) -> Organization:
    """Lock an organization by primary key."""
    return Organization.objects.select_for_update().get(pk=organization_id)


def api_key(*, organization: Organization, public_id: str) -> ApiKey:
    """Lock one of the organization's keys. Raises NotFound."""
    key = ApiKey.objects.select_for_update().filter(organization=organization, public_id=public_id).first()
    if key is None:
        raise NotFound(f"no API key {public_id} in this organization")
    return key


def open_project(*, organization: Organization, public_id: str) -> Project:
    """Lock one of the organization's projects. Raises NotFound, ProjectArchived."""
    rows = Project.objects.select_for_update(of=("self",)).filter(organization=organization, public_id=public_id)
    project = rows.select_related("organization").first()
    if project is None:
        raise NotFound(f"no project {public_id} in this organization")
    if project.archived_at is not None:
        raise ProjectArchived(f"{project.name} is archived.", param="project", fix="Choose another project.")
    return project


def invitation(*, token_hash: str) -> Invitation | None:
    """Lock the invitation with this token."""
    rows = Invitation.objects.select_for_update(of=("self",)).select_related("organization")
    return rows.filter(token_hash=token_hash).first()


def organization_by_public_id(*, public_id: str) -> Organization:
    """Lock an organization by its public id. Raises NotFound."""
    row = Organization.objects.select_for_update().filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"no organization {public_id}")
    return row


def open_invitation(*, organization: Organization, invitation_id: int) -> Invitation:
    """Lock one of the organization's open invitations. Raises NotFound."""
    rows = Invitation.objects.select_for_update().filter(organization=organization, accepted_at=None, revoked_at=None)
    row = rows.filter(pk=invitation_id).first()
    if row is None:
        raise NotFound("no such open invitation in this organization")
    return row


def membership(*, organization: Organization, user_public_id: str) -> Membership:
    """Lock one person's membership. Raises NotFound."""
    rows = Membership.objects.select_for_update(of=("self",)).select_related("user")
    row = rows.filter(organization=organization, user__public_id=user_public_id).first()
    if row is None:
        raise NotFound("no such member in this organization")
    return row
