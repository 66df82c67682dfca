"""Projects of an organization."""

from django.db.models import Count, F, Q, QuerySet

from portal.accounts.models import Organization, Project
from portal.core.errors import NotFound


def list_projects(*, organization: Organization, limit: int = 200) -> QuerySet[Project]:
    """Return the organization's projects with `live_keys`, open ones first, then by name."""
    rows = Project.objects.filter(organization=organization).annotate(
        live_keys=Count("api_keys", filter=Q(api_keys__revoked_at=None))
    )
    return rows.order_by(F("archived_at").desc(nulls_first=True), "name", "pk")[:limit]


def open_projects(*, organization: Organization, limit: int = 200) -> QuerySet[Project]:
    """Return the projects that take keys, by name."""
    return Project.objects.filter(organization=organization, archived_at=None).order_by("name", "pk")[:limit]


def get_project(*, organization: Organization, public_id: str) -> Project:
    """Return one of the organization's projects. Raises NotFound."""
    row = Project.objects.filter(organization=organization, public_id=public_id).first()
    if row is None:
        raise NotFound(f"no project {public_id} in this organization")
    return row
