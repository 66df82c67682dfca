"""What placement reads: the fleet and the catalogue as plain facts, and what pages show of the newest round."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from poolhouse_common.planner import Gpu as PlannedGpu
from poolhouse_common.planner import ModelShape, Wish

from portal.catalog.models import CatalogModel
from portal.catalog.rules.shapes import ModelConfigInvalid
from portal.catalog.selectors import shapes
from portal.catalog.selectors.models import deployable_models
from portal.nodes.models import (
    ChosenBy,
    Deployment,
    DesiredState,
    Gpu,
    ModelPlacement,
    Node,
    NodePlacement,
    NodeState,
    PlacementMode,
    PlacementPolicy,
    PlacementRound,
    PlacementSwitch,
)
from portal.nodes.rules import silence, states
from portal.nodes.rules.placement_facts import (
    Demand,
    DeploymentFact,
    Failure,
    GpuFact,
    ModelFact,
    NodeFact,
    Policy,
)
from portal.nodes.selectors.rows import Explained, explained

MAX_ROUNDS = 50
_ONE_AT_ONCE = 1


def policy() -> PlacementPolicy:
    """The operator's policy; an unsaved default row where none was set."""
    return PlacementPolicy.objects.filter(pk=1).first() or PlacementPolicy()


def policy_of(row: PlacementPolicy) -> Policy:
    """The policy as the rules take it."""
    return Policy(
        grow_at_percent=row.grow_at_percent,
        shrink_at_percent=row.shrink_at_percent,
        short_for=timedelta(seconds=row.short_for_s),
        idle_for=timedelta(seconds=row.idle_for_s),
        stay=timedelta(seconds=row.stay_s),
        moves_a_round=row.moves_a_round,
    )


def is_fleet_silent(*, now: datetime) -> bool:
    """Tell whether so many nodes went silent together that it is the platform's fault: nothing is moved for that.

    Nodes that were moved offline by such a silence count as silent until they come back.
    """
    fleet = Node.objects.exclude(state__in=states.CLOSED_STATES).exclude(last_heartbeat_at=None)
    gone = fleet.filter(state__in=states.LIVE_STATES, last_heartbeat_at__lt=now - silence.SUSPECT_AFTER)
    lost = fleet.filter(state=NodeState.OFFLINE, state_code="platform_silence")
    since = [at for at in (gone | lost).values_list("last_heartbeat_at", flat=True) if at is not None]
    alive = fleet.filter(state__in=states.LIVE_STATES).count() + lost.count()
    return silence.is_platform_fault(silent_since=since, fleet=alive)


def node_facts() -> list[NodeFact]:
    """Every node that is not closed, with its healthy GPUs and its deployments, in the order of joining."""
    nodes = list(Node.objects.exclude(state__in=states.CLOSED_STATES).select_related("placement").order_by("id"))
    gpus: dict[int, list[GpuFact]] = {}
    for gpu in Gpu.objects.filter(node__in=nodes, is_present=True, fault_code="").order_by("index", "uuid"):
        if gpu.memory_bytes:
            planned = PlannedGpu(gpu.name, gpu.memory_bytes, gpu.compute_capability)
            gpus.setdefault(gpu.node_id, []).append(GpuFact(gpu.uuid, planned))
    deployments: dict[int, list[DeploymentFact]] = {}
    for row in Deployment.objects.filter(node__in=nodes).select_related("model").order_by("id"):
        deployments.setdefault(row.node_id, []).append(_deployment(row))
    return [_node(node, tuple(gpus.get(node.pk, ())), tuple(deployments.get(node.pk, ()))) for node in nodes]


def model_facts(*, demand: Mapping[int, Demand]) -> list[ModelFact]:
    """Every model that may be deployed, with the operator's wishes, its demand and what rounds remember of it."""
    rows = {row.model_id: row for row in ModelPlacement.objects.all()}
    found = []
    for model in deployable_models():
        shape, wish = _planned(model)
        row = rows.get(model.pk) or ModelPlacement(model=model)
        found.append(
            ModelFact(
                id=model.pk,
                public_id=model.public_id,
                shape=shape,
                wish=wish,
                minimum=row.minimum_nodes,
                maximum=row.maximum_nodes,
                demand=demand.get(model.pk, Demand()),
                short_since=row.short_since,
                idle_since=row.idle_since,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """What a round found of one model on a node, in the failure catalogue's words."""

    model: str
    action: str
    why: Explained


@dataclass(frozen=True, slots=True)
class NodeVerdicts:
    """What the newest round found of a node."""

    is_automatic: bool
    is_carried_out: bool
    looked_at: datetime | None
    rows: list[VerdictRow]


def verdicts_of(*, node: Node) -> NodeVerdicts:
    """What the newest round found of the node; empty before the first."""
    row = NodePlacement.objects.filter(node=node).first()
    if row is None:
        return NodeVerdicts(is_automatic=False, is_carried_out=False, looked_at=None, rows=[])
    return NodeVerdicts(
        is_automatic=row.mode == PlacementMode.AUTOMATIC,
        is_carried_out=policy().switch == PlacementSwitch.ON,
        looked_at=row.looked_at,
        rows=[verdict_row(one) for one in row.verdicts],
    )


def verdict_row(verdict: Mapping[str, Any]) -> VerdictRow:
    """Return a stored verdict with the catalogue's words."""
    why = explained(str(verdict["code"]), str(verdict.get("detail", "")))
    return VerdictRow(model=str(verdict["model"]), action=str(verdict["action"]), why=why)


def rounds(*, limit: int = MAX_ROUNDS) -> list[PlacementRound]:
    """The newest rounds that moved something or held still, newest first."""
    return list(PlacementRound.objects.order_by("-at", "-id")[:limit])


def targets() -> dict[int, ModelPlacement]:
    """What the operator wants of each model and what the newest round saw of it, by model id."""
    return {row.model_id: row for row in ModelPlacement.objects.all()}


def automatic_nodes() -> list[NodePlacement]:
    """The nodes on which the pool chooses, with their verdicts, in the order of joining."""
    rows = NodePlacement.objects.filter(mode=PlacementMode.AUTOMATIC).exclude(node__state__in=states.CLOSED_STATES)
    return list(rows.select_related("node__provider").order_by("node_id")[:500])


def _node(node: Node, gpus: tuple[GpuFact, ...], deployments: tuple[DeploymentFact, ...]) -> NodeFact:
    placement = getattr(node, "placement", None)
    failures = placement.failures if placement else {}
    return NodeFact(
        id=node.pk,
        public_id=node.public_id,
        provider_id=node.provider_id,
        state=node.state,
        state_code=node.state_code,
        is_automatic=placement is not None and placement.mode == PlacementMode.AUTOMATIC,
        is_simulated=node.is_simulated,
        gpus=gpus,
        deployments=deployments,
        failures={
            int(model): Failure(code=str(one["code"]), at=datetime.fromisoformat(one["at"]))
            for model, one in failures.items()
        },
    )


def _deployment(row: Deployment) -> DeploymentFact:
    uuids = row.settings.get("gpu_uuids")
    spread = row.settings.get("tensor_parallel_size") or row.model.engine_args.get("tensor_parallel_size")
    return DeploymentFact(
        public_id=row.public_id,
        model_id=row.model_id,
        is_wanted=row.desired == DesiredState.RUNNING,
        is_persons=row.chosen_by == ChosenBy.PERSON,
        observed=row.observed,
        since=row.desired_at or row.created_at,
        running=row.running,
        waiting=row.waiting,
        max_concurrency=row.max_concurrency,
        gpu_uuids=tuple(uuids) if isinstance(uuids, list) else (),
        gpus=spread if isinstance(spread, int) else 1,
        code=row.observed_code,
    )


def _planned(model: CatalogModel) -> tuple[ModelShape | None, Wish]:
    wish = shapes.wish_of(model, concurrency=_ONE_AT_ONCE)
    try:
        return shapes.shape_of(model), wish
    except ModelConfigInvalid:
        return None, wish
