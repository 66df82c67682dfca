"""Organizations as the operator looks at them."""

from django.db.models import Count, Q, QuerySet

from portal.accounts.models import Organization
from portal.core.errors import NotFound


def list_organizations(*, search: str = "", limit: int = 100) -> QuerySet[Organization]:
    """Return organizations by name or public id, newest first, with `live_keys` and `member_count`."""
    rows = Organization.objects.annotate(
        live_keys=Count("api_keys", filter=Q(api_keys__revoked_at=None), distinct=True),
        member_count=Count("memberships", distinct=True),
    )
    if search:
        rows = rows.filter(Q(name__icontains=search) | Q(public_id=search))
    return rows.order_by("-created_at", "pk")[:limit]


def get_organization(*, public_id: str) -> Organization:
    """Return one organization. Raises NotFound."""
    row = Organization.objects.filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"no organization {public_id}")
    return row
