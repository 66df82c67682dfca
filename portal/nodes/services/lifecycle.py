"""What people decide about a node: drain, resume, suspend, retire, and what it costs the house."""

from datetime import datetime

from django.db import transaction

from portal.audit.services import Actor
from portal.core.errors import Conflict, InvalidValue
from portal.nodes import locks
from portal.nodes.models import Deployment, DesiredState, HouseCost, Node, NodeOrigin, NodeState
from portal.nodes.rules import states
from portal.nodes.services import decisions, moves
from portal.providers.models import ProviderKind

HIGHEST_COST_NANO = 10**14  # a hundred thousand units of the currency an hour: beyond it is a slip of the hand


class NotAHouseNode(Conflict):
    """Only the operator's own nodes have an origin and a cost."""

    code = "not_a_house_node"


def drain(*, node_id: str, actor: Actor, now: datetime) -> Node:
    """Send no new requests to the node; it rests once running ones have ended. Raises NodeRetired, NodeSuspended."""
    with transaction.atomic():
        node = decisions.lock_open(node_id)
        if not node.is_drain_wanted:
            node.is_drain_wanted = True
            node.save(update_fields=["is_drain_wanted"])
            decisions.record(node, "node.drained", actor=actor, now=now)
        if node.state in states.LIVE_STATES - {NodeState.DRAINING, NodeState.MAINTENANCE}:
            moves.move(node=node, to=moves.Move(state=NodeState.DRAINING, code="drain_requested"), now=now)
    return node


def resume(*, node_id: str, actor: Actor, now: datetime) -> Node:
    """Let a drained node take requests again; its next heartbeat moves it. Raises NodeRetired, NodeSuspended."""
    with transaction.atomic():
        node = decisions.lock_open(node_id)
        if node.is_drain_wanted:
            node.is_drain_wanted = False
            node.save(update_fields=["is_drain_wanted"])
            decisions.record(node, "node.resumed", actor=actor, now=now)
        if node.state in {NodeState.DRAINING, NodeState.MAINTENANCE}:
            moves.move(node=node, to=moves.Move(state=NodeState.CHECKING, code="resumed"), now=now)
    return node


def suspend(*, node_id: str, reason: str, code: str = "node_suspended", actor: Actor, now: datetime) -> Node:
    """Stop the node until the operator lets it go on: no sessions, no requests. Raises NodeMoveRefused."""
    if not reason.strip():
        raise InvalidValue("give the reason; the provider will read it", param="reason")
    with transaction.atomic():
        node = locks.node(node_id)
        to = moves.Move(state=NodeState.SUSPENDED, code=code, cause="operator", reason=reason.strip()[:240])
        moves.move(node=node, to=to, now=now)
        decisions.record(node, "node.suspended", actor=actor, now=now, reason=reason)
    return node


def lift_suspension(*, node_id: str, actor: Actor, now: datetime) -> Node:
    """Let a suspended node open sessions again; old flips no longer count. Raises NodeMoveRefused."""
    with transaction.atomic():
        node = locks.node(node_id)
        moves.move(node=node, to=moves.Move(state=NodeState.OFFLINE, code="resumed", cause="operator"), now=now)
        node.sessions.all().delete()
        decisions.record(node, "node.suspension_lifted", actor=actor, now=now)
    return node


def retire(*, node_id: str, actor: Actor, now: datetime) -> Node:
    """Take the node out of the pool for good; what it earned stays earned. Raises NodeMoveRefused."""
    with transaction.atomic():
        node = locks.node(node_id)
        let_go(node=node, code="node_retired", now=now)
        decisions.record(node, "node.retired", actor=actor, now=now)
    return node


def let_go(*, node: Node, code: str, now: datetime) -> None:
    """Retire a locked node: nothing should run on it, nobody may open a session for it. Raises NodeMoveRefused."""
    moves.move(node=node, to=moves.Move(state=NodeState.RETIRED, code=code), now=now)
    Deployment.objects.filter(node=node).update(desired=DesiredState.STOPPED, running=0, waiting=0)


def rename(*, node_id: str, name: str, actor: Actor, now: datetime) -> Node:
    """Give the node another name. Raises InvalidValue."""
    if not name.strip():
        raise InvalidValue("give a name", param="name")
    with transaction.atomic():
        node = locks.node(node_id)
        node.name = name.strip()[:80]
        node.save(update_fields=["name"])
        decisions.record(node, "node.renamed", actor=actor, now=now)
    return node


def set_house_terms(
    *,
    node_id: str,
    origin: NodeOrigin,
    cost_nano_per_hour: int,
    actor: Actor,
    now: datetime,
    effective_from: datetime | None = None,
) -> Node:
    """Say whether a house node is owned or rented and what an hour of it costs from when on, `now` by default.

    A moment that has passed is allowed: costs are shown in the margin, never booked. Raises NotAHouseNode,
    InvalidValue.
    """
    if not 0 <= cost_nano_per_hour <= HIGHEST_COST_NANO or origin == NodeOrigin.PROVIDER:
        raise InvalidValue("give owned or rented, and a cost of zero or more", param="origin")
    with transaction.atomic():
        node = locks.node(node_id)
        if node.provider.kind != ProviderKind.HOUSE:
            raise NotAHouseNode("only the operator's own nodes have an origin and a cost")
        node.origin = origin
        node.save(update_fields=["origin"])
        starts = effective_from or now
        HouseCost.objects.create(
            node=node,
            nano_per_hour=cost_nano_per_hour,
            effective_from=starts,
            created_at=now,
            created_by=actor.public_id,
        )
        detail: dict[str, object] = {
            "origin": origin.value,
            "nano": cost_nano_per_hour,
            "effective_from": starts.isoformat(),
        }
        decisions.record(node, "node.house_terms_set", actor=actor, now=now, **detail)
    return node
