"""Keeps what a node says about its deployments."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import QuerySet

from portal.core.kept_query import KeptQuery
from portal.integrations import bus
from portal.nodes.models import Deployment, DesiredState, EngineKind, Node, ObservedState
from portal.nodes.rules.beats import DeploymentClaim
from portal.nodes.rules.engines import is_below
from portal.nodes.selectors.engines import pin_for, with_pins

# A claim that repeats the last one is written down once a minute: so old `observed_at` may be.
_REFRESH = timedelta(seconds=60)
# What an agent may say of its engine beside its state; the rest is left out.
_TOLD = frozenset({"engine_version", "gpu_uuids", "kv_cache_tokens", "loading", "done_bytes", "total_bytes"})
_FIELDS = ["observed", "observed_code", "observed_detail", "running", "waiting", "counters", "facts"]


def take(*, node: Node, claims: Sequence[DeploymentClaim], now: datetime) -> list[Deployment]:
    """Store the claims under the node's lock and return all its deployments, with their models, oldest first.

    A claim about a deployment that is not this node's is ignored.
    """
    rows = _OF_NODE.rows(node.pk)
    said = {claim.deployment: claim for claim in claims}
    readiness_changed = False
    for row in rows:
        before, was_ready = _facts(row), row.observed == ObservedState.READY
        _apply(row, said.get(row.public_id))
        readiness_changed |= was_ready != (row.observed == ObservedState.READY)
        is_old = row.observed_at is None or now - row.observed_at >= _REFRESH
        if _facts(row) != before or (is_old and row.public_id in said):
            row.observed_at = now
            row.save(update_fields=["observed_at", *_FIELDS])
    if readiness_changed:
        bus.announce("nodes", node.public_id)
    return rows


def _of_node() -> QuerySet[Deployment]:
    return with_pins(Deployment.objects.filter(node_id=0).select_related("model").defer("model__config")).order_by("id")


_OF_NODE = KeptQuery(_of_node)


def _facts(row: Deployment) -> list[object]:
    return [getattr(row, name) for name in _FIELDS]


def _apply(row: Deployment, claim: DeploymentClaim | None) -> None:
    if claim is None:
        _forget(row)
        return
    row.observed, row.observed_code, row.observed_detail = claim.state, claim.code, claim.detail
    row.running, row.waiting, row.counters = claim.running, claim.waiting, dict(claim.counters)
    row.facts = {name: value for name, value in claim.facts.items() if name in _TOLD}
    version, floor = str(row.facts.get("engine_version") or ""), pin_for(row).floor
    if row.engine == EngineKind.VLLM and version and is_below(version, floor):
        row.observed, row.observed_code = ObservedState.FAILED, "engine_version_unsupported"
        row.observed_detail = f"vLLM {version[:32]}; this pool takes {floor} or newer"


def _forget(row: Deployment) -> None:
    """The node says nothing of it: it does not run there (any more)."""
    silent = ObservedState.PENDING if row.desired == DesiredState.RUNNING else ObservedState.STOPPED
    if row.observed != silent:
        row.observed, row.observed_code, row.observed_detail, row.facts = silent, "", "", {}
    row.running = row.waiting = 0
