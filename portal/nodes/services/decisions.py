"""What every decision of a person about a node shares: who may be decided about, and the record of it."""

from datetime import datetime

from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.integrations import bus
from portal.nodes import locks
from portal.nodes.models import Node
from portal.nodes.services import sessions


def lock_open(node_id: str) -> Node:
    """Lock a node that is neither retired nor suspended. Raises NodeUnknown, NodeRetired, NodeSuspended."""
    node = locks.node(node_id)
    require_active(node.provider.organization)
    sessions.require_open(node)
    return node


def record(node: Node, event: str, *, actor: Actor, now: datetime, **detail: object) -> None:
    """Audit the decision and tell the gateways, inside the transaction that carries it out."""
    audit.record(
        actor=actor,
        event=event,
        subject=node.public_id,
        now=now,
        organization=node.provider.organization.public_id,
        detail=detail,
    )
    bus.announce("nodes", node.public_id)
