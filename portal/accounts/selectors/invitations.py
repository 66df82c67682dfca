"""Open invitations."""

from datetime import datetime

from django.db.models import QuerySet

from portal.accounts.models import Invitation, Organization
from portal.accounts.rules import invitation_text


def open_invitations(*, organization: Organization | None, now: datetime, limit: int = 200) -> QuerySet[Invitation]:
    """Return the invitations that can still be accepted (into the pool alone where organization is None)."""
    rows = Invitation.objects.filter(
        organization=organization, accepted_at=None, revoked_at=None, expires_at__gt=now
    ).select_related("invited_by")
    return rows.order_by("-created_at", "pk")[:limit]


def invitation_of(*, token: str, now: datetime) -> Invitation | None:
    """Return the open invitation with this token."""
    rows = Invitation.objects.filter(accepted_at=None, revoked_at=None, expires_at__gt=now)
    return rows.filter(token_hash=invitation_text.digest(token)).select_related("organization", "invited_by").first()
