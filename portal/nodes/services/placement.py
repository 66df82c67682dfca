"""Carries out placement: rounds over the fleet, and what people decide about them."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial

from django.db import connection, transaction

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.catalog.models import CatalogModel
from portal.core.errors import Conflict, DomainError, InvalidValue
from portal.nodes import locks
from portal.nodes.models import (
    ChosenBy,
    Deployment,
    DesiredState,
    EngineKind,
    ModelPlacement,
    Node,
    NodePlacement,
    PlacementMode,
    PlacementPolicy,
    PlacementRound,
    PlacementSwitch,
)
from portal.nodes.rules import placement as rules
from portal.nodes.rules.placement import Round, Start, Stop, Table
from portal.nodes.rules.placement_facts import Demand
from portal.nodes.selectors import placement as selectors
from portal.nodes.services import decisions, deployments

log = logging.getLogger(__name__)


class ProviderDecided(Conflict):
    """A person has decided otherwise since the round began; that wins."""

    code = "placement_overruled"


_ALONE = "SELECT pg_try_advisory_xact_lock(hashtextextended('poolhouse.nodes.placement', 0))"
_MAX_VERDICTS = 64
_KEPT_ROUNDS = 500
_TOLD_AGAIN = timedelta(hours=1)
_SMALL_LIMIT = 1000


def run_round(*, demand: Mapping[int, Demand], now: datetime) -> PlacementRound | None:
    """Decide one round over the fleet, store what was found, and act where the operator has switched it on.

    None where it is switched off, where another round is under way, and where there is nothing to tell.
    """
    with transaction.atomic():
        if not _is_alone():
            return None
        policy = selectors.policy()
        if policy.switch == PlacementSwitch.OFF:
            return None
        if selectors.is_fleet_silent(now=now):
            return _hold(policy, now=now)
        found = look(demand=demand, now=now)
        _remember(found, now=now)
    moves = carry_out(found, policy=policy, now=now)
    return _note(policy, "placement_done", moves, now=now) if moves else None


def carry_out(found: Round, *, policy: PlacementPolicy, now: datetime) -> list[dict[str, object]]:
    """Do what the round decided, each move under its node's lock; return all moves, each with what stood in its way."""
    return [*_stops(found, policy, now=now), *_starts(found, policy, now=now)]


def look(*, demand: Mapping[int, Demand], now: datetime, is_brief: bool = False) -> Round:
    """Return what a round would decide now, and change nothing; a brief look explains the short models alone."""
    models = selectors.model_facts(demand=demand)
    policy = selectors.policy_of(selectors.policy())
    nodes = selectors.node_facts()
    return rules.decide(Table(nodes=nodes, models=models, policy=policy, now=now, is_brief=is_brief))


def set_mode(*, node_id: str, mode: PlacementMode, actor: Actor, now: datetime) -> NodePlacement:
    """Say who chooses on the node. Letting the pool choose anew forgets what people stopped there.

    What runs stays as it is: what the pool placed is then the provider's own. Raises NodeUnknown, NodeRetired, …
    """
    with transaction.atomic():
        node = decisions.lock_open(node_id)
        row, _ = NodePlacement.objects.get_or_create(node=node)
        if row.mode == mode:
            return row
        row.mode, row.verdicts, row.failures, row.looked_at = mode, [], {}, None
        row.save()
        theirs = Deployment.objects.filter(node=node)
        if mode == PlacementMode.AUTOMATIC:
            theirs.filter(desired=DesiredState.STOPPED).update(chosen_by=ChosenBy.AUTOMATIC)
        else:
            theirs.update(chosen_by=ChosenBy.PERSON)
        decisions.record(node, "node.placement_set", actor=actor, now=now, mode=mode.value)
    return row


def set_target(
    *, model: CatalogModel, minimum: int, maximum: int | None, actor: Actor, now: datetime
) -> ModelPlacement:
    """Say on how many nodes the model should run at least and at most. Raises InvalidValue."""
    if not 0 <= minimum <= _SMALL_LIMIT or (maximum is not None and not minimum <= maximum <= _SMALL_LIMIT):
        raise InvalidValue(f"use 0 to {_SMALL_LIMIT}, the maximum not below the minimum", param="maximum")
    with transaction.atomic():
        row, _ = ModelPlacement.objects.select_for_update().get_or_create(model=model)
        row.minimum_nodes, row.maximum_nodes = minimum, maximum
        row.save(update_fields=["minimum_nodes", "maximum_nodes"])
        detail: dict[str, object] = {"minimum": minimum, "maximum": maximum}
        audit.record(actor=actor, event="model.placement_set", subject=model.public_id, now=now, detail=detail)
    return row


def set_policy(*, values: Mapping[str, object], actor: Actor, now: datetime) -> PlacementPolicy:
    """Change the operator's policy. Raises InvalidValue where loads cross or a value is out of range."""
    with transaction.atomic():
        row, _ = PlacementPolicy.objects.select_for_update().get_or_create(pk=1)
        for name, value in values.items():
            setattr(row, name, value)
        if not 0 <= row.shrink_at_percent < row.grow_at_percent <= 100:  # noqa: PLR2004  percents
            raise InvalidValue("a model shrinks below the load at which it grows", param="shrink_at_percent")
        row.save()
        audit.record(actor=actor, event="placement.policy_set", subject="placement", now=now, detail=dict(values))
    return row


def _is_alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_ALONE)
        return bool(cursor.fetchone()[0])


def _hold(policy: PlacementPolicy, *, now: datetime) -> PlacementRound | None:
    """Note, and once in a while again, that nothing is moved while a large part of the fleet is silent."""
    last = PlacementRound.objects.order_by("-at", "-id").first()
    if last is not None and last.code == "placement_held" and now - last.at < _TOLD_AGAIN:
        return None
    log.error("placement.held")
    return _note(policy, "placement_held", [], now=now)


def _note(policy: PlacementPolicy, code: str, moves: list[dict[str, object]], *, now: datetime) -> PlacementRound:
    row = PlacementRound.objects.create(at=now, switch=policy.switch, code=code, moves=moves)
    PlacementRound.objects.filter(pk__lte=row.pk - _KEPT_ROUNDS).delete()
    return row


def _remember(found: Round, *, now: datetime) -> None:
    """Store what was seen of each model, and the verdicts of each node whose verdicts changed."""
    ModelPlacement.objects.bulk_create(
        [_seen(model_id, found, now=now) for model_id in found.needs],
        update_conflicts=True,
        unique_fields=["model"],
        update_fields=["short_since", "idle_since", "seen", "looked_at"],
    )
    rows = {row.node_id: row for row in NodePlacement.objects.filter(mode=PlacementMode.AUTOMATIC)}
    for node_id, row in rows.items():
        row.verdicts = [asdict(one) for one in found.verdicts.get(node_id, [])[:_MAX_VERDICTS]]
        row.looked_at = now
    NodePlacement.objects.bulk_update(rows.values(), ["verdicts", "looked_at"], batch_size=200)


def _seen(model_id: int, found: Round, *, now: datetime) -> ModelPlacement:
    need = found.needs[model_id]
    seen = {
        "ready": need.ready, "coming": need.coming, "places": need.places, "busy": need.busy,
        "tokens_a_minute": need.tokens_a_minute, "refused": need.refused, "code": need.code,
    }  # fmt: skip
    return ModelPlacement(
        model_id=model_id, short_since=need.short_since, idle_since=need.idle_since, seen=seen, looked_at=now
    )


def _stops(found: Round, policy: PlacementPolicy, *, now: datetime) -> Iterator[dict[str, object]]:
    for move in found.stops:
        refused = _carried_out(partial(_stop, move, now=now), policy)
        yield {
            "action": "stop", "node": move.node.public_id, "model": move.model.public_id, "code": move.code,
            "detail": move.room_for or move.deployment.code, "refused": refused,
        }  # fmt: skip


def _starts(found: Round, policy: PlacementPolicy, *, now: datetime) -> Iterator[dict[str, object]]:
    for move in found.starts:
        refused = _carried_out(partial(_start, move, now=now), policy)
        yield {
            "action": "start", "node": move.node.public_id, "model": move.model.public_id, "code": "placement_starts",
            "detail": rules.REASONS[move.code], "refused": refused,
        }  # fmt: skip


def _carried_out(act: Callable[[], None], policy: PlacementPolicy) -> str:
    """Do it where placement is switched on; return the code of what stood in the way, else an empty text."""
    if policy.switch != PlacementSwitch.ON:
        return ""
    try:
        act()
    except DomainError as error:
        log.warning("placement.refused", extra={"code": error.code, "detail": error.message})
        return error.code
    return ""


def _stop(move: Stop, *, now: datetime) -> None:
    """End the deployment unless a person has decided about it meanwhile. Raises DomainError."""
    with transaction.atomic():
        node = _automatic(move.node.id)
        row = Deployment.objects.filter(node=node, public_id=move.deployment.public_id).first()
        if row is None or row.chosen_by != ChosenBy.AUTOMATIC:
            raise ProviderDecided("a person has decided about this deployment meanwhile")
        if move.code == "placement_failed_here":
            failures = {
                **node.placement.failures,
                str(row.model_id): {"code": row.observed_code, "at": now.isoformat()},
            }
            NodePlacement.objects.filter(node=node).update(failures=failures)
        deployments.stop(deployment=row, actor=SYSTEM_ACTOR, now=now, chosen_by=ChosenBy.AUTOMATIC)


def _start(move: Start, *, now: datetime) -> None:
    """Ask the node for the model unless a person has decided about it meanwhile. Raises DomainError."""
    with transaction.atomic():
        node = _automatic(move.node.id)
        row = Deployment.objects.filter(node=node, model_id=move.model.id).first()
        if row is not None and row.chosen_by == ChosenBy.PERSON:
            raise ProviderDecided("a person has decided about this model here meanwhile")
        is_simulated = move.node.is_simulated
        deployments.deploy(
            node=node,
            model=CatalogModel.objects.get(pk=move.model.id),
            engine=EngineKind.SIMULATE if is_simulated else EngineKind.VLLM,
            settings={} if is_simulated else _settings(move),
            max_concurrency=move.fit.max_concurrency,
            actor=SYSTEM_ACTOR,
            now=now,
            chosen_by=ChosenBy.AUTOMATIC,
        )


def _settings(move: Start) -> dict[str, object]:
    gpus = list(move.fit.gpu_uuids)
    return {"gpu_uuids": gpus, **({"tensor_parallel_size": len(gpus)} if len(gpus) > 1 else {})}


def _automatic(node_id: int) -> Node:
    """Lock a node on which the pool still chooses. Raises ProviderDecided."""
    node = locks.node_by_id(node_id)
    placement = NodePlacement.objects.filter(node=node).first()
    if placement is None or placement.mode != PlacementMode.AUTOMATIC:
        raise ProviderDecided("the provider chooses on this node again")
    node.placement = placement
    return node
