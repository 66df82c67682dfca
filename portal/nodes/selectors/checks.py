"""Rounds and results of checks as services and pages read them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from portal.core.errors import NotFound
from portal.nodes.models import (
    OPEN_ROUNDS,
    CheckMode,
    CheckPolicy,
    CheckResult,
    CheckRound,
    Deployment,
    DesiredState,
    EngineKind,
    Gpu,
    Node,
    NodeEvent,
    NodeState,
    ObservedState,
    Opinion,
    RoundReason,
    RoundState,
    Verdict,
)
from portal.nodes.rules import states
from portal.nodes.rules.checks import false_alarm_bps

WINDOW: Final = timedelta(days=30)
_QUIET: Final = timedelta(days=7)
_SHOWN = 200
_MANY = 500_000
_BAD_CAUSES = ("node", "engine")


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """How a check does over the fleet: subjects tested, failures, and failures on nodes that are in order."""

    tested: int
    failed: int
    to_review: int
    healthy: int
    false_alarms: int

    @property
    def false_alarm_bps(self) -> int | None:
        """The share of healthy subjects that the check fails, in basis points."""
        return false_alarm_bps(alarms=self.false_alarms, healthy=self.healthy)


def open_round(*, node: Node) -> CheckRound | None:
    """The round that the node is asked for now, or None."""
    if not node.has_check_matters:
        return None
    return CheckRound.objects.filter(node=node, state__in=OPEN_ROUNDS).first()


def last_round(*, node: Node) -> CheckRound | None:
    """The node's newest round."""
    return CheckRound.objects.filter(node=node).order_by("-asked_at", "-id").first()


def due_nodes(*, ended_before: datetime, unfinished_before: datetime, limit: int) -> list[int]:
    """Ids of live nodes without an open round that are due: the last finished one is old, or a model is ready that was
    never measured. One that did not finish keeps the node away for a while; the round of joining does not, since no
    model is ready then."""
    rounds = CheckRound.objects.filter(node=OuterRef("pk"))
    open_or_new = Q(state__in=OPEN_ROUNDS) | Q(asked_at__gt=unfinished_before)
    is_old = ~Exists(rounds.filter(open_or_new | Q(state=RoundState.DONE, ended_at__gt=ended_before)))
    is_left_alone = ~Exists(rounds.filter(open_or_new & ~Q(reason=RoundReason.JOIN, state=RoundState.DONE)))
    unmeasured = Exists(_unmeasured_models())
    rows = Node.objects.filter(state__in=states.LIVE_STATES).filter(is_old | (is_left_alone & unmeasured))
    return list(rows.order_by("pk").values_list("pk", flat=True)[:limit])


def _unmeasured_models() -> QuerySet[Deployment]:
    """Models that are ready on the node and have no result of their own there."""
    measured = CheckResult.objects.filter(
        node=OuterRef("node"), check_id="engine.smoke", subject=OuterRef("model__public_id")
    ).exclude(verdict=Verdict.SKIP)
    ready = Deployment.objects.filter(node=OuterRef("pk"), desired=DesiredState.RUNNING, observed=ObservedState.READY)
    return ready.exclude(engine=EngineKind.EXTERNAL).filter(~Exists(measured))


def latest_results(*, node: Node) -> Sequence[CheckResult]:
    """The newest result of each check and subject of the node."""
    rows = CheckResult.objects.filter(node=node).select_related("node")
    rows = rows.order_by("check_id", "subject", "-at", "-id")
    return list(rows.distinct("check_id", "subject")[:_SHOWN])


def enforced_failures(*, node: Node) -> tuple[str, ...]:
    """Codes of failures that keep the node from work: still the newest result, still enforced, of a GPU still there."""
    if not node.has_check_matters:
        return ()
    rows = CheckResult.objects.filter(node=node, is_enforced=True, verdict=Verdict.FAIL)
    failing = list(rows.exclude(opinion=Opinion.FALSE_ALARM).order_by("check_id", "-at", "-id")[:_SHOWN])
    if not failing:
        return ()
    newest = {row.pk for row in latest_results(node=node)}
    modes = _modes({row.check_id for row in failing})
    absent = set(Gpu.objects.filter(node=node, is_present=False).values_list("uuid", flat=True))
    held = [row for row in failing if row.pk in newest and row.subject not in absent]
    return tuple(dict.fromkeys(row.verdict_code for row in held if modes.get(row.check_id) == CheckMode.ENFORCED))


def results_of_check(*, check: str, verdicts: Sequence[str], since: datetime) -> QuerySet[CheckResult]:
    """The check's results with such verdicts, newest first, with their nodes."""
    rows = CheckResult.objects.filter(check_id=check, verdict__in=verdicts, at__gte=since)
    return rows.select_related("node__provider").order_by("-at", "-id")[:_SHOWN]


def result(result_id: int) -> CheckResult:
    """One result with its node. Raises NotFound."""
    found = CheckResult.objects.select_related("node__provider").filter(pk=result_id).first()
    if found is None:
        raise NotFound("there is no such result", param="result")
    return found


def fleet_figures(*, now: datetime, only: Collection[str] | None = None) -> Mapping[str, FleetFigures]:
    """How each check does over the fleet, from the newest result of each subject in the window; simulated nodes, whose
    figures are made, do not count."""
    rows = CheckResult.objects.filter(at__gte=now - WINDOW, node__is_simulated=False).exclude(verdict=Verdict.SKIP)
    if only is not None:
        rows = rows.filter(check_id__in=only)
    newest = rows.order_by("check_id", "node", "subject", "-at", "-id").distinct("check_id", "node", "subject")
    healthy = _healthy_nodes(now=now)
    by_check: dict[str, list[tuple[str, str, bool]]] = {}
    for check, node, verdict, opinion in newest.values_list("check_id", "node", "verdict", "opinion")[:_MANY]:
        by_check.setdefault(check, []).append((verdict, opinion, node in healthy))
    return {check: _figures(found) for check, found in by_check.items()}


def _figures(found: list[tuple[str, str, bool]]) -> FleetFigures:
    failed = [(opinion, is_healthy) for verdict, opinion, is_healthy in found if verdict == Verdict.FAIL]
    alarms = [opinion for opinion, is_healthy in failed if _is_false(opinion, is_healthy=is_healthy)]
    passed = sum(is_healthy for verdict, _, is_healthy in found if verdict in {Verdict.PASS, Verdict.WARN})
    to_review = sum(verdict == Verdict.REVIEW for verdict, _, _ in found)
    return FleetFigures(len(found), len(failed), to_review, passed + len(alarms), len(alarms))


def _is_false(opinion: str, *, is_healthy: bool) -> bool:
    """The operator's word counts before what the node's record suggests."""
    return opinion == Opinion.FALSE_ALARM or (opinion == Opinion.NONE and is_healthy)


def _healthy_nodes(*, now: datetime) -> set[int]:
    """Nodes that serve and had no fault of their own for a week."""
    faults = NodeEvent.objects.filter(
        node=OuterRef("pk"), at__gte=now - _QUIET, cause__in=_BAD_CAUSES, to_state=NodeState.DEGRADED
    )
    rows = Node.objects.filter(state=NodeState.SERVING).filter(~Exists(faults))
    return set(rows.values_list("pk", flat=True)[:_MANY])


def _modes(checks: set[str]) -> dict[str, str]:
    rows = CheckPolicy.objects.filter(check_id__in=checks).order_by("check_id", "revision")
    return dict(rows.values_list("check_id", "mode"))
