"""Nodes with their tunnels and running deployments as the gateway's snapshot takes them."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from portal.nodes.models import Deployment, DesiredState, Node, NodeGuest, ObservedState, Tunnel
from portal.nodes.rules import states

# Only columns that routing reads: heartbeats and touches write these rows all the time.
_DIGEST = """
    SELECT (
        SELECT coalesce(sum(hashtextextended(
            concat_ws('|', state, node_class, country, region, generation, provider_id, is_private), id)), 0)
        FROM nodes_node
    ), (
        SELECT coalesce(sum(hashtextextended(
            concat_ws('|', node_id, model_id, desired, observed, max_concurrency), id)), 0) FROM nodes_deployment
    ), (
        SELECT coalesce(sum(hashtextextended(
            concat_ws('|', generation, process, peer), node_id)), 0) FROM nodes_tunnel
    ), (
        SELECT coalesce(sum(hashtextextended(
            concat_ws('|', node_id, organization_id, accepted_at), id)), 0) FROM nodes_nodeguest
    )
"""
_COLUMNS = ("id", "public_id", "provider_id", "node_class", "country", "region", "generation", "state", "is_private")


@dataclass(frozen=True, slots=True)
class TunnelRow:
    """Who holds a node's tunnel."""

    process: str
    peer: str
    generation: int


@dataclass(frozen=True, slots=True)
class GuestRow:
    """An organization that may use a private node, and when it last accepted the prices."""

    organization_id: int
    accepted_at: datetime


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node that is not closed. `models` maps model id to concurrency for what runs there."""

    id: int
    public_id: str
    provider_id: int
    node_class: str
    country: str
    region: str
    generation: int
    is_routable: bool
    models: dict[int, int]
    tunnel: TunnelRow | None
    is_private: bool
    guests: list[GuestRow]


def nodes_digest() -> tuple[str, ...]:
    """Return texts that differ whenever something changed that routing reads."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST)
        return tuple(str(value) for value in cursor.fetchone())


def nodes() -> list[NodeRow]:
    """Return all nodes but the suspended and retired ones, reading no column that routing has no use for."""
    running: dict[int, dict[int, int]] = {}
    ready = Deployment.objects.filter(desired=DesiredState.RUNNING, observed=ObservedState.READY)
    for node_id, model_id, concurrency in ready.values_list("node_id", "model_id", "max_concurrency"):
        running.setdefault(node_id, {})[model_id] = concurrency
    held = Tunnel.objects.values_list("node_id", "process", "peer", "generation")
    tunnels = {node_id: TunnelRow(process, peer, generation) for node_id, process, peer, generation in held}
    guests: dict[int, list[GuestRow]] = {}
    for guest in NodeGuest.objects.order_by("id"):
        if guest.accepted_at is not None:
            guests.setdefault(guest.node_id, []).append(GuestRow(guest.organization_id, guest.accepted_at))
    rows = Node.objects.exclude(state__in=states.CLOSED_STATES).order_by("id").values_list(*_COLUMNS, named=True)
    return [
        NodeRow(
            id=row.id,
            public_id=row.public_id,
            provider_id=row.provider_id,
            node_class=row.node_class,
            country=row.country,
            region=row.region,
            generation=row.generation,
            is_routable=row.state in states.ROUTABLE_STATES,
            models=running.get(row.id, {}),
            tunnel=tunnels.get(row.id),
            is_private=row.is_private,
            guests=guests.get(row.id, []),
        )
        for row in rows
    ]
