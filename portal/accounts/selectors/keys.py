"""API keys as pages show them; secrets are not stored, so none can leak from here."""

from django.db.models import F, QuerySet

from portal.accounts.models import ApiKey, Organization
from portal.core.errors import NotFound


def list_keys(*, organization: Organization, limit: int = 200) -> QuerySet[ApiKey]:
    """Return the organization's keys, live ones first, then newest first."""
    rows = ApiKey.objects.filter(organization=organization).select_related("created_by", "project")
    return rows.order_by(F("revoked_at").desc(nulls_first=True), "-created_at", "pk")[:limit]


def get_key(*, organization: Organization, public_id: str) -> ApiKey:
    """Return one of the organization's keys. Raises NotFound."""
    rows = ApiKey.objects.filter(organization=organization, public_id=public_id)
    key = rows.select_related("created_by", "project", "organization").first()
    if key is None:
        raise NotFound(f"no API key {public_id} in this organization")
    return key
