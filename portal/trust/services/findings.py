"""What follows when a node is judged otherwise than before: it is audited, and the gateways hear of it."""

from collections.abc import Mapping
from datetime import datetime

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.integrations import bus
from portal.trust.models import CacheAudit, EngineAudit, TokenBias


def announce(
    row: CacheAudit | EngineAudit | TokenBias, event: str, detail: Mapping[str, object], *, now: datetime
) -> None:
    """Record the new verdict on the row's node and model, inside the transaction that changes it."""
    audit.record(
        actor=SYSTEM_ACTOR,
        event=event,
        subject=row.node.public_id,
        now=now,
        organization=row.node.provider.organization.public_id,
        detail={"model": row.model.public_id, **detail},
    )
    bus.announce("trust", row.node.public_id)
