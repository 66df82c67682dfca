"""The audit log as pages show it."""

from django.db.models import QuerySet

from portal.audit.models import AuditEvent


def events_of(*, organization: str, limit: int = 50) -> QuerySet[AuditEvent]:
    """Return an organization's events, newest first."""
    return AuditEvent.objects.filter(organization=organization).order_by("-at", "-pk")[:limit]
