"""Stop an organization's spending and let it go on; why is for the room that decides it to know."""

from datetime import datetime

from portal.accounts import locks
from portal.accounts.models import Organization
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.integrations import bus


def set_stop(*, organization_id: int, why: str, actor: Actor, now: datetime) -> Organization:
    """Refuse the organization's requests because of `why`, or take them again where it is empty.

    Every gateway process knows within a second; what is running ends and is charged.
    """
    row = locks.organization(organization_id=organization_id)
    if row.stopped_for == why:
        return row
    before, row.stopped_for = row.stopped_for, why
    row.save(update_fields=["stopped_for"])
    audit.record(
        actor=actor,
        event="organization.spending_stopped" if why else "organization.spending_allowed",
        subject=row.public_id,
        organization=row.public_id,
        detail={"from": before, "to": why},
        now=now,
    )
    bus.announce("organizations", row.public_id)
    bus.announce("leases", str(row.pk))
    return row
