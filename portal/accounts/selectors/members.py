"""Who belongs to an organization, and to which organizations a person belongs."""

from datetime import datetime

from django.db.models import QuerySet

from portal.accounts.models import Membership, Organization, Role, User
from portal.audit.models import AuditEvent
from portal.core.errors import NotFound


def memberships_of(*, user: User, limit: int = 100) -> list[Membership]:
    """Return the person's memberships with their organizations, oldest first."""
    rows = Membership.objects.filter(user=user).select_related("organization")
    return list(rows.order_by("created_at", "pk")[:limit])


def members_of(*, organization: Organization, limit: int = 500) -> QuerySet[Membership]:
    """Return the organization's members with their people, oldest first."""
    rows = Membership.objects.filter(organization=organization).select_related("user")
    return rows.order_by("created_at", "pk")[:limit]


def owner_addresses(*, organization: Organization) -> list[str]:
    """Return the e-mail addresses of the organization's owners, longest-serving first."""
    rows = Membership.objects.filter(organization=organization, role=Role.OWNER, user__is_active=True)
    return list(rows.order_by("created_at", "pk").values_list("user__email", flat=True))


def former_owner_addresses(*, organization: Organization, since: datetime) -> list[str]:
    """Return the addresses of people who were owners and have been made less, or removed, since then."""
    events = AuditEvent.objects.filter(
        organization=organization.public_id, event__in=["member.removed", "member.role_changed"], at__gte=since
    )
    lost = [row.subject for row in events if Role.OWNER in (row.detail.get("role"), row.detail.get("from"))]
    return list(User.objects.filter(public_id__in=lost).order_by("pk").values_list("email", flat=True))


def member_of(*, organization: Organization, user_public_id: str) -> Membership:
    """Return one person's membership. Raises NotFound."""
    rows = Membership.objects.filter(organization=organization, user__public_id=user_public_id)
    row = rows.select_related("user").first()
    if row is None:
        raise NotFound("no such member in this organization")
    return row
