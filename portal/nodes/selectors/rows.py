"""Ready values of nodes for the pages of providers and of the operator: one room below both."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from poolhouse_common import failures

from portal.nodes.models import Deployment, Gpu, Node, NodeEvent


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
class HostRow:
    """The machine as it described itself when it joined."""

    system: str
    kernel: str
    cpu_count: int | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A GPU as its node reports it."""

    index: int
    uuid: str
    name: str
    memory_bytes: int | None
    driver: str
    temperature: str
    power: str
    load: str
    state: str
    last_seen_at: datetime


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


def host_row(node: Node) -> HostRow:
    """Return the machine; what it did not say stays empty."""
    cpu_count, memory = node.host.get("cpu_count"), node.host.get("memory_bytes")
    return HostRow(
        system=str(node.host.get("os", "")),
        kernel=str(node.host.get("kernel", "")),
        cpu_count=cpu_count if isinstance(cpu_count, int) else None,
        memory_bytes=memory if isinstance(memory, int) else None,
    )


def gpu_row(gpu: Gpu) -> GpuRow:
    """Return a GPU; a reading that the driver did not give stays empty and never reads as zero."""
    values = gpu.report.get("values", {})
    return GpuRow(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        memory_bytes=gpu.memory_bytes,
        driver=gpu.driver,
        temperature=_reading(values, "temperature_c", " °C"),
        power=_reading(values, "power_mw", " W", divisor=1000),
        load=_reading(values, "utilization_percent", " %"),
        state="reported" if gpu.is_present else "missing",
        last_seen_at=gpu.last_seen_at,
    )


def error_row(error: Mapping[str, str]) -> Explained:
    """Return what a node says it cannot read."""
    return explained(str(error.get("code", "")), str(error.get("detail", "")))


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


def _reading(values: Mapping[str, object], name: str, unit: str, *, divisor: int = 1) -> str:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return f"{value / divisor:.0f}{unit}"
