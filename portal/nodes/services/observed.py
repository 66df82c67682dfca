"""Keeps what a node says about its deployments."""

from collections.abc import Sequence
from datetime import datetime

from portal.integrations import bus
from portal.nodes.models import Deployment, DesiredState, Node, ObservedState
from portal.nodes.rules.beats import DeploymentClaim

_FIELDS = ["observed", "observed_code", "observed_detail", "observed_at", "running", "waiting", "counters"]


def take(*, node: Node, claims: Sequence[DeploymentClaim], now: datetime) -> None:
    """Store the claims under the node's lock; one about a deployment that is not this node's is ignored."""
    rows = {row.public_id: row for row in Deployment.objects.filter(node=node)}
    said = {claim.deployment: claim for claim in claims}
    readiness_changed = False
    for public_id, row in rows.items():
        before = row.observed
        _apply(row, said.get(public_id), now=now)
        readiness_changed |= (before == ObservedState.READY) != (row.observed == ObservedState.READY)
    Deployment.objects.bulk_update(rows.values(), _FIELDS)
    if readiness_changed:
        bus.announce("nodes", node.public_id)


def _apply(row: Deployment, claim: DeploymentClaim | None, *, now: datetime) -> None:
    if claim is None:
        _forget(row, now=now)
        return
    row.observed, row.observed_code, row.observed_detail = claim.state, claim.code, claim.detail
    row.running, row.waiting, row.counters = claim.running, claim.waiting, dict(claim.counters)
    row.observed_at = now


def _forget(row: Deployment, *, now: datetime) -> None:
    """The node says nothing of it: it does not run there (any more)."""
    silent = ObservedState.PENDING if row.desired == DesiredState.RUNNING else ObservedState.STOPPED
    if row.observed != silent:
        row.observed, row.observed_code, row.observed_detail, row.observed_at = silent, "", "", now
    row.running = row.waiting = 0
