"""Ready values of nodes for the pages of providers and of the operator: one room below both."""

from dataclasses import dataclass
from datetime import datetime

from poolhouse_common import failures

from portal.nodes.models import Deployment, Node, NodeEvent


@dataclass(frozen=True, slots=True)
class Explained:
    """A code with the failure catalogue's words."""

    code: str
    title: str
    cause: str
    fix: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node in a list."""

    public_id: str
    name: str
    state: str
    node_class: str
    why: Explained
    gpu_count: int
    ready_count: int
    last_heartbeat_at: datetime | None
    agent_version: str
    is_simulated: bool
    provider: str
    provider_id: str


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """A model on a node."""

    public_id: str
    model: str
    model_id: str
    engine: str
    state: str
    is_wanted: bool
    running: int
    waiting: int
    max_concurrency: int
    observed_at: datetime | None
    failure: Explained | None


@dataclass(frozen=True, slots=True)
class EventRow:
    """A move of a node, or something else its owner should see."""

    at: datetime
    from_state: str
    to_state: str
    is_move: bool
    what: Explained
    whose: str
    note: str


_WHOSE = {
    "node": "the machine",
    "provider": "the owner",
    "provider_network": "the owner's network",
    "engine": "the engine",
    "platform": "the pool",
    "customer": "a customer",
    "operator": "the operator",
}


def explained(code: str, detail: str = "") -> Explained:
    """Return the catalogue's words for a code."""
    known = failures.explain(code)
    return Explained(code=code, title=known.title, cause=known.cause, fix=known.fix, detail=detail)


def node_row(node: Node) -> NodeRow:
    """Return a node with the counts its selector annotated."""
    return NodeRow(
        public_id=node.public_id,
        name=node.name,
        state=node.state,
        node_class=node.node_class,
        why=explained(node.state_code or "waiting_for_agent"),
        gpu_count=getattr(node, "gpu_count", 0),
        ready_count=getattr(node, "ready_count", 0),
        last_heartbeat_at=node.last_heartbeat_at,
        agent_version=node.agent_version,
        is_simulated=node.is_simulated,
        provider=node.provider.legal_name,
        provider_id=node.provider.public_id,
    )


def deployment_row(row: Deployment) -> DeploymentRow:
    """Return a model on a node; its state is what the node says, once it is asked to run."""
    is_wanted = row.desired == "running"
    shown = row.observed if is_wanted or row.observed != "pending" else "stopped"
    return DeploymentRow(
        public_id=row.public_id,
        model=row.model.name,
        model_id=row.model.public_id,
        engine=row.get_engine_display(),
        state=shown,
        is_wanted=is_wanted,
        running=row.running,
        waiting=row.waiting,
        max_concurrency=row.max_concurrency,
        observed_at=row.observed_at,
        failure=explained(row.observed_code, row.observed_detail) if row.observed_code else None,
    )


def event_row(event: NodeEvent) -> EventRow:
    """Return an event."""
    note = str(event.detail.get("reason", "") or event.detail.get("address", "") or "")
    addresses = event.detail.get("addresses")
    return EventRow(
        at=event.at,
        from_state=event.from_state,
        to_state=event.to_state,
        is_move=event.from_state != event.to_state,
        what=explained(event.code),
        whose=_WHOSE.get(event.cause, event.cause),
        note=", ".join(str(item) for item in addresses) if isinstance(addresses, list) else note,
    )
