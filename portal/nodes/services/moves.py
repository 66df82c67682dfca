"""The one writer of a node's state: each move is checked, recorded as an event with its cause, and announced."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from poolhouse_common import failures

from portal.integrations import bus
from portal.nodes.models import Node, NodeEvent
from portal.nodes.rules import states


@dataclass(frozen=True, slots=True)
class Move:
    """Where to, why (a code of the failure catalogue), and what else is known."""

    state: str
    code: str
    cause: str = ""
    reason: str = ""
    detail: Mapping[str, object] = field(default_factory=dict)


def move(*, node: Node, to: Move, now: datetime) -> None:
    """Move a locked node and save it. Raises NodeMoveRefused."""
    states.require_move(before=node.state, after=to.state)
    cause = to.cause or failures.explain(to.code).source
    NodeEvent.objects.create(
        node=node,
        at=now,
        from_state=node.state,
        to_state=to.state,
        code=to.code,
        cause=cause,
        detail={**to.detail, **({"reason": to.reason} if to.reason else {})},
    )
    node.state, node.state_code, node.state_cause, node.state_reason = to.state, to.code, cause, to.reason
    node.state_changed_at = now
    node.save(update_fields=["state", "state_code", "state_cause", "state_reason", "state_changed_at"])
    bus.announce("nodes", node.public_id)


def note(*, node: Node, code: str, now: datetime, detail: Mapping[str, object] | None = None) -> None:
    """Add an event that is no move: something the node's owner should see."""
    NodeEvent.objects.create(
        node=node,
        at=now,
        from_state=node.state,
        to_state=node.state,
        code=code,
        cause=failures.explain(code).source,
        detail=dict(detail or {}),
    )
