"""Who belongs to an organization, and to which organizations a person belongs."""

from django.db.models import QuerySet

from portal.accounts.models import Membership, Organization, User


def memberships_of(*, user: User, limit: int = 100) -> list[Membership]:
    """Return the person's memberships with their organizations, oldest first."""
    rows = Membership.objects.filter(user=user).select_related("organization")
    return list(rows.order_by("created_at", "pk")[:limit])


def members_of(*, organization: Organization, limit: int = 500) -> QuerySet[Membership]:
    """Return the organization's members with their people, oldest first."""
    rows = Membership.objects.filter(organization=organization).select_related("user")
    return rows.order_by("created_at", "pk")[:limit]
