"""The one writer of the audit log."""

from dataclasses import dataclass
from datetime import datetime

from portal.audit.models import AuditEvent

SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: a user's public id, a node's public id or `system`, and the address it came from."""

    public_id: str
    address: str | None = None


SYSTEM_ACTOR = Actor(public_id=SYSTEM)


def record(
    *,
    actor: Actor,
    event: str,
    subject: str,
    now: datetime,
    organization: str = "",
    detail: dict[str, object] | None = None,
) -> AuditEvent:
    """Write one event inside the caller's transaction."""
    return AuditEvent.objects.create(
        at=now,
        event=event,
        actor=actor.public_id,
        subject=subject,
        organization=organization,
        address=actor.address,
        detail=detail or {},
    )
